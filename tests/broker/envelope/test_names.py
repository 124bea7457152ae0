"""The grammar of names, which is written in docs/protocol.md."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.names import (
    CAPABILITY_PATTERN,
    MAX_NAME,
    MAX_RESOURCE,
    NAME_PATTERN,
    PREFIX_PATTERN,
    check_names,
    is_capability,
    is_name,
    is_prefix,
    is_resource,
)
from ether_broker.errors import InvalidEnvelope
from tests.hostile_text import HOSTILE, obeyed
from tests.support import REPOSITORY

SECTION = (REPOSITORY / "docs/protocol.md").read_text(encoding="utf-8").partition("### Names")[2].partition("\n## ")[0]


def test_the_document_has_the_grammar_of_the_code():
    rows = re.findall(
        r"^\| (an agent|a capability|a topic|a resource).*? \| (.*) \| ([\d,]+) bytes \|$", SECTION, re.MULTILINE
    )

    assert [(what, grammar.strip("`").replace("\\|", "|")) for what, grammar, _ in rows[:3]] == [
        ("an agent", NAME_PATTERN),
        ("a capability", CAPABILITY_PATTERN),
        ("a topic", PREFIX_PATTERN),
    ]
    assert [int(most.replace(",", "")) for *_, most in rows] == [MAX_NAME, MAX_NAME, MAX_NAME, MAX_RESOURCE]


@given(st.text(max_size=250) | st.from_regex(NAME_PATTERN) | st.from_regex(CAPABILITY_PATTERN))
def test_a_name_that_is_taken_is_what_the_grammar_says_and_shows_as_it_is(text):
    for is_one, pattern in ((is_name, NAME_PATTERN), (is_capability, CAPABILITY_PATTERN)):
        assert is_one(text.encode()) == (re.fullmatch(pattern, text) is not None and len(text) <= MAX_NAME)
        assert not is_one(text.encode()) or (text.isascii() and not obeyed(text) and not set(text) & set(" \n\t|`<>[]"))
    assert is_prefix(text) == (re.fullmatch(PREFIX_PATTERN, text) is not None and len(text) <= MAX_NAME)


def test_a_capability_has_so_many_words_at_most_and_the_refusal_says_so():
    assert is_capability(b".".join([b"w"] * 16))

    with pytest.raises(InvalidEnvelope, match="up to 16 words"):
        check_names(b"", b"", b".".join([b"w"] * 17))


@given(
    st.from_regex(CAPABILITY_PATTERN, fullmatch=True).filter(lambda name: len(name) <= MAX_NAME), st.integers(0, 250)
)
def test_every_begin_of_a_capability_is_a_prefix(name, length):
    assert is_prefix(name[:length])


@pytest.mark.parametrize(
    "name", [b"", b"a\n", b"\xff", b"-a", b".a", b"a b", b"a" * 201, b"a\x00", "é".encode(), HOSTILE.encode()]
)
def test_what_nobody_can_be_named(name):
    assert not is_name(name)
    assert not is_capability(name) or name == b"-a"


@pytest.mark.parametrize("name", ["/tmp/a b/ü.txt", "x" * 4_096, "日本"])
def test_a_resource_is_any_printable_text(name):
    assert is_resource(name)


@pytest.mark.parametrize("name", ["", "a\n", "\x1b[2J", "\u202e", "\u2028", "x" * 4_097, "ü" * 2_049, HOSTILE])
def test_what_cannot_be_leased(name):
    assert not is_resource(name)


def test_names_of_a_header_may_be_missing_and_must_not_be_wrong():
    check_names(b"", b"", b"")
    check_names(b"a", b"node:b", b"c.d")
    for names in ((b"a b", b"", b""), (b"", b"\x1b", b""), (b"a", b"b", b"c d"), (b"a", b"b", b".")):
        with pytest.raises(InvalidEnvelope, match="is no "):
            check_names(*names)
