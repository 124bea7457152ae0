"""Text of strangers: on a terminal, in Markdown, and as JSON."""

from __future__ import annotations

import itertools
import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ether_broker.text import json_text, markdown, markdown_cell, markdown_code, one_line, printable, printable_lines
from tests.hostile_text import HOSTILE, obeyed

ANYTHING = st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Mn", "Me", "Zl", "Zp"]))


@given(ANYTHING)
@example(HOSTILE)
def test_nothing_of_a_text_moves_the_cursor(text):
    assert obeyed(printable_lines(text).replace("FORGED", "")) == []
    assert printable(text).isprintable()
    assert "\n" not in printable(text)


@pytest.mark.parametrize("number", [*range(0x20), *range(0x7F, 0xA0)])
def test_each_control_sign_is_written_out(number):
    sign = chr(number)

    assert printable(f"a{sign}b") == f"a{sign.encode('unicode_escape').decode()}b"
    assert printable_lines(f"a{sign}b") == (f"a{sign}b" if sign in "\n\t" else printable(f"a{sign}b"))


@pytest.mark.parametrize(
    "sign", [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c", *"\u200b\u200c\u200d\u2060\ufeff",
             "\u00ad", "\u180e", "\u2028", "\u2029", "\u3164", "\u115f", "\u034f", "\ue000", "\ud800", "\U000e0041"]
)  # fmt: skip
def test_what_turns_the_order_round_or_shows_nothing_is_written_out(sign):
    assert printable(f"a{sign}b") == f"a{sign.encode('unicode_escape', 'surrogatepass').decode()}b"


def test_text_of_any_script_stays_as_it_is():
    for text in ("Grüße", "naïve cafe\u0301", "日本語", "Tiếng Việt", "हिन्दी", "ไทย", "שָׁלוֹם", "عربي", "✅ ⚠️ 🎉 └─ █░"):
        assert printable(text) == one_line(text) == printable_lines(text) == text


def test_a_letter_has_four_marks_at_most_and_a_blank_none():
    assert printable("e" + "\u0301" * 6) == "e" + "\u0301" * 4 + "\\u0301" * 2
    assert printable("\u0301x \u0301") == "\\u0301x \\u0301"


@given(ANYTHING, st.integers(2, 50))
def test_a_line_is_one_line_and_no_longer_than_it_may_be(text, most):
    for line in (one_line(text, most), printable(text, most)):
        assert line.isprintable()
        assert len(line) <= most


@given(ANYTHING)
def test_what_is_safe_stays_as_it_is(text):
    for make in (printable, one_line, printable_lines):
        assert make(make(text)) == make(text)


def test_blanks_of_any_kind_become_one_in_prose():
    assert one_line(" a\n\tb\r\nc\u2028d\x85e ") == "a b c d e"


def test_line_ends_of_either_kind_stay_in_lines():
    assert printable_lines("a\r\nb\nc\rd") == "a\nb\nc\\rd"


def test_what_is_cut_off_shows():
    assert one_line("abcdef", 4) == printable("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == printable("abcd", 4) == "abcd"
    assert one_line("a " * 1000, 5) == "a a …"


# -- JSON --------------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs"])) | st.just("\ud800")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(WORDS, inside, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 2]))
@example({HOSTILE: [HOSTILE]}, 2)
def test_json_loses_nothing_and_a_terminal_obeys_nothing_of_it(value, indent):
    text = json_text(value, indent)

    assert json.loads(text) == value
    assert obeyed(text) == []
    assert indent or "\n" not in text
    assert printable_lines(text) == text


def test_what_is_printable_stays_readable_in_json():
    assert json_text({"é": "日本 \x1b\x9b\u202e\x7f\U000e0041"}) == (
        r'{"é": "日本 \u001b\u009b\u202e\u007f\udb40\udc41"}'
    )  # fmt: skip


def test_what_json_has_no_word_for_is_told_in_its_own():
    value = {"b": b"\x00", "s": {2, 1}, "e": ValueError("x"), "n": [float("nan"), float("-inf")], 1: (2,), b"k": 3}

    assert json.loads(json_text(value), parse_constant=sys.exit) == {
        "b": "AA==", "s": [1, 2], "e": "x", "n": [None, None], "1": [2], "aw==": 3,
    }  # fmt: skip


# -- Markdown ----------------------------------------------------------------------------------------------------------

PROSE = st.text() | st.text(st.sampled_from("`\\|<b>[](a)!#*_-+=1.:/&;~ \n"), max_size=30)
READERS = [MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"])]


@given(PROSE)
@example("```<b>` <i>`")
@example("# a\n- b\n1. c\n---")
@example("![x](y) [a]: b <http://evil.example> &lt; a``<b>`")
def test_markdown_shows_prose_as_it_is(text):
    for reader in READERS:
        [paragraph] = [token for token in reader.parse(f"x {markdown(text)}") if token.children]
        assert {token.type for token in paragraph.children} <= {"text", "text_special", "code_inline"}
        if "`" not in text:
            shown = "".join(token.content for token in paragraph.children)
            assert shown.strip() == f"x {one_line(text)}".strip()


@given(PROSE)
@example("- a")
@example("2) b")
@example("= c")
def test_prose_begins_neither_a_heading_nor_a_list_nor_a_rule(text):
    for before in ("", "- "):
        tokens = READERS[1].parse(f"{before}{markdown(text)}")
        assert {token.type for token in tokens} <= {
            "paragraph_open", "paragraph_close", "inline", "bullet_list_open", "bullet_list_close", "list_item_open",
            "list_item_close",
        }  # fmt: skip
        assert sum(token.type == "list_item_open" for token in tokens) == bool(before)


@given(PROSE)
@example("a`b")
@example("")
def test_code_is_one_span_whatever_stands_in_it(text):
    [paragraph] = [token for token in READERS[0].parse(f"x {markdown_code(text)} y") if token.children]

    assert [token.type for token in paragraph.children] == ["text", "code_inline", "text"]


@given(PROSE, PROSE)
@example("\\|<b>", "|")
@example("\\", "\\|")
def test_a_cell_ends_where_it_is_to_end(prose, code):
    row = f"| {markdown_cell(markdown(prose))} | {markdown_cell(markdown_code(code))} | end |"

    tokens = READERS[1].parse(f"| a | b | c |\n|---|---|---|\n{row}\n")
    cells = [inline for cell, inline in itertools.pairwise(tokens) if cell.type == "td_open"]
    assert len(cells) == 3
    assert cells[2].content == "end"
    kinds = {token.type for cell in cells for token in cell.children}
    assert kinds <= {"text", "text_special", "code_inline"}


def test_an_address_is_no_link():
    assert markdown("see http://evil.example or www.evil.example") == "see http\\://evil.example or www\\.evil.example"
