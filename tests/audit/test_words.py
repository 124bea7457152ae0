"""Text of strangers on a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ether.audit.words import brief, one_line, printable


@given(st.text())
def test_nothing_of_a_text_moves_the_cursor(text: str) -> None:
    assert all(sign.isprintable() or sign in "\n\t" for sign in printable(text))


@given(st.text(), st.integers(2, 50))
def test_a_line_is_one_line_and_no_longer_than_it_may_be(text: str, most: int) -> None:
    line = one_line(text, most)

    assert line.isprintable()
    assert len(line) <= most


def test_escapes_are_written_out() -> None:
    assert printable("a\x1b[31m\x9b\u202e\nb") == "a\\x1b[31m\\x9b\\u202e\nb"


def test_blanks_of_any_kind_become_one() -> None:
    assert one_line(" a\n\tb\r\nc ") == "a b c"


def test_what_is_cut_off_shows() -> None:
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"
    assert one_line("a " * 1000, 5) == "a a …"


def test_a_value_is_brief() -> None:
    assert [brief(value) for value in (None, {}, "text", 0, False, [], {"b": b"12"})] == [
        "", "", "text", "0", "false", "[]", '{"b": "<2 bytes>"}',
    ]  # fmt: skip
