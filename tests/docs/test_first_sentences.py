"""The first sentence of a docstring, of each module and of each class: a noun phrase that says what it is."""

from __future__ import annotations

import ast
from typing import Final

import pytest

from tests.docs.glossary import sources

_VERBS: Final = """answers are counts does drive drives examine examines explore explores finds gives has holds keep keeps makes
    reads run runs say says search searches sees shows stores summarise takes tells writes"""
_QUESTIONS: Final = "all everything from how what when where whether which who whose why"
NO_NOUNS: Final = frozenset(f"{_VERBS} {_QUESTIONS}".split())
GERUNDS_THAT_NAME: Final = frozenset({"timing"})


def is_noun_phrase(sentence: str) -> bool:
    """By its first word: no verb form, no question."""
    first = sentence.split(maxsplit=1)[0].strip("`,:;.").lower()
    return first not in NO_NOUNS and (not first.endswith("ing") or first in GERUNDS_THAT_NAME)


def test_a_module_says_first_what_is_in_it() -> None:
    first = {name: (ast.get_docstring(source.tree) or "").partition("\n")[0] for name, source in sources().items()}

    assert {name: line for name, line in first.items() if not line.endswith(".") or not is_noun_phrase(line)} == {}


def test_a_class_says_first_what_it_is() -> None:
    first = {
        f"{name}.{one.name}": docstring.partition("\n")[0]
        for name, source in sources().items()
        if name != "ether_broker.errors"  # whose classes say what went wrong
        for one in source.classes
        if (docstring := ast.get_docstring(one))
    }

    assert {name: line for name, line in first.items() if not is_noun_phrase(line)} == {}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("What it does.", False),
        ("Reading it.", False),
        ("Keeps it.", False),
        ("A reader of it.", True),
        ("Timing.", True),
    ],
)
def test_the_first_word_tells(sentence: str, expected: bool) -> None:
    assert is_noun_phrase(sentence) is expected
