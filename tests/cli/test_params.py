from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether.cli.bus.params import collect_params
from ether_broker.errors import UsageError
from ether_broker.text import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("a=1", 1),
        ("a=one", "one"),
        ('a="1"', "1"),
        ("a=", ""),
        ("a=b=c", "b=c"),
        ('a={"b": [1, null]}', {"b": [1, None]}),
        ("a=NaN", "NaN"),
        ("a=-Infinity", "-Infinity"),
        ("a=true", True),
        ("a=True", "True"),
        ("a=007", "007"),
    ],
)
def test_a_value_is_json_where_it_can_be(pair: str, value: object) -> None:
    assert collect_params(None, [pair], []) == {"a": value}


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (["--a", "1", "--b=x"], {"a": 1, "b": "x"}),
        (["--max-depth", "3"], {"max_depth": 3}),
        (["--deep"], {"deep": True}),
        (["--deep", "--path", "src"], {"deep": True, "path": "src"}),
        (["--below", "-3"], {"below": -3}),
        (["--a="], {"a": ""}),
        ([], {}),
    ],
)
def test_options_that_nobody_knows_are_parameters(words: list[str], params: object) -> None:
    assert collect_params(None, [], words) == params


def test_what_stands_alone_counts_more_than_the_whole() -> None:
    assert collect_params('{"a": 1, "b": 2}', ["b=3"], ["--c", "4"]) == {"a": 1, "b": 3, "c": 4}


@pytest.mark.parametrize("words", [["src"], ["-x"], ["--"], ["--a", "1", "src"]])
def test_a_word_that_is_no_option_is_too_much(words: list[str]) -> None:
    with pytest.raises(UsageError, match="is too much"):
        collect_params(None, [], words)


@settings(max_examples=40)
@given(VALUES)
def test_every_json_value_comes_through_as_it_is(value: object) -> None:
    assert collect_params(None, [f"a={json_text(value)}"], []) == {"a": value}
    assert collect_params(json_text({"a": value}), [], []) == {"a": value}
    assert collect_params(None, [], [f"--a={json_text(value)}"]) == {"a": value}
