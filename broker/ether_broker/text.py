r"""Text of strangers, made safe to show: on a terminal, in a log, in Markdown, and as JSON on a terminal. Sans-IO.

What a peer wrote may hold bytes that a terminal obeys (ESC, CSI, OSC, BEL, all of C0 and C1), that turn the reading order
round (bidi controls), that nobody sees (zero-width and other format signs), that begin a line which nobody wrote, or that
pile hundreds of marks on one letter. None of it is dropped: it is written out, as `repr` does (`\x1b`, `\u202e`).

    printable          one line, everything else written out
    error_text         of an exception; error_with_class, with its class
    brief              a value that was to be another, in an error
    short_text         the begin of a text
    one_line           one line of prose: blanks of any kind become one
    printable_lines    several lines; line ends and tabs stay
    json_text          JSON; what is not printable is `\uXXXX`, so it stays valid and loses nothing
    markdown           prose in Markdown, shown as it is; code in backticks stays code
    markdown_code      a code span
    markdown_cell      either of them in a table
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, Final
from unicodedata import category

__all__ = [
    "brief",
    "error_text",
    "error_with_class",
    "json_text",
    "markdown",
    "markdown_cell",
    "markdown_code",
    "one_line",
    "printable",
    "printable_lines",
    "short_text",
]

_MOST_MARKS: Final = 4
"""Combining marks on one letter; no living script needs more."""
_ALONE: Final = frozenset({"", " ", "\n", "\t", '"'})
"""In front of a mark: it would sit on what is not the stranger's own."""
_EMPTY: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that show nothing, though Unicode calls them printable."""
_LINE: Final = re.compile(r"[^ -~]+")
_LINES: Final = re.compile(r"[^\n\t -~]+")
_JSON: Final = re.compile(r"[^\n -~]+")


def printable(text: object, most: int | None = None) -> str:
    """The text as one line in which everything that is not printable is written out, line ends too.

    Args:
        text: what is no text is shown by its `str`.
        most: characters of the result at most; what is cut off shows as `…`.
    """
    whole = str(text)
    shown = _LINE.sub(_written_out, whole if most is None else whole[: most + 1])
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


def brief(value: object, most: int = 80) -> str:
    """A value of a stranger's in an error: text and numbers as their `repr`, cut; of anything else what it is, and how long.

    A list is not written out before it is cut: one of 100,000 numbers takes 0.1 s.
    """
    if isinstance(value, str | bytes):
        return repr(value[:most])
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() < 256):  # noqa: PLR2004
        return repr(value)
    kind = "map" if isinstance(value, Mapping) else "list" if isinstance(value, Sequence) else type(value).__name__
    return f"a {kind} of {len(value):,}" if isinstance(value, Sized) else f"a {kind}"


def short_text(value: object, most: int) -> str:
    """The first characters of a stranger's text; of what is none, nothing."""
    return value[:most] if isinstance(value, str) else ""


def error_text(error: BaseException) -> str:
    """What an exception says of itself; its `__str__` may be a user's, and raise."""
    try:
        return str(error)
    except BaseException as bug:  # noqa: BLE001  whatever it is, what it says is not what matters
        return f"(its text cannot be had: {type(bug).__name__})"


def error_with_class(error: BaseException) -> str:
    """The class of an exception and what it says of itself, as the last line of a traceback has them."""
    return f"{type(error).__name__}: {error_text(error)}"


def one_line(text: str, most: int | None = None) -> str:
    """The text as one printable line: blanks of any kind become one, and what is over `most` characters `…`."""
    if most is not None and len(text) > 4 * most:
        text = text[: 4 * most] + "…"  # a megabyte of parameters need not be looked at sign by sign
    return printable(" ".join(text.split()), most)


def printable_lines(text: str) -> str:
    """The text with line ends and tabs kept, and everything else that is not printable written out."""
    return _LINES.sub(_written_out, text.replace("\r\n", "\n"))


def _written_out(found: re.Match[str], escape: Callable[[str], str] | None = None) -> str:
    marks = _MOST_MARKS if found.string[max(0, found.start() - 1) : found.start()] in _ALONE else 0
    signs = []
    for sign in found[0]:
        marks = marks + 1 if category(sign)[0] == "M" else 0
        is_shown = marks <= _MOST_MARKS and sign.isprintable() and sign not in _EMPTY
        signs.append(sign if is_shown else (escape or _escaped)(sign))
    return "".join(signs)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode()


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_text(value: Any, indent: int | None = None) -> str:
    r"""A value as JSON that reads back as the same text, with what is not printable as `\uXXXX`.

    Bytes become base64, sets sorted lists, numbers that JSON has not (NaN, ±Infinity) null, keys their text, and what JSON
    has no word for its text.
    """
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        text = json.dumps(_sound(value), indent=indent, ensure_ascii=False, default=_plain)
    return _JSON.sub(lambda found: _written_out(found, _json_escaped), text)


def _json_escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1]


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


def _sound(value: Any) -> Any:
    """The value without the numbers and keys that JSON has not."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(_plain(key)): _sound(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- Markdown ----------------------------------------------------------------------------------------------------------

_SPAN: Final = re.compile(r"((?<!`)`[^`]+`(?!`))")
"""Code in single backticks; longer runs would pair otherwise than they look, and are shown as signs."""
_SIGNS: Final = re.compile(r"[\\*_\[\]<>`#&~]|:(?=//)|(?<=\bwww)\.")
"""What Markdown, or GitHub's, takes for more than text, with the two that make a link of an address."""
_BEGIN: Final = re.compile(r"^(?:[-+](?=\s|$)|-(?=[-\s]*$)|=(?==*\s*$)|\d{1,9}(?=[.)](?:\s|$)))")
"""What makes a list, a rule or a heading of the line that it begins."""


def markdown(text: str) -> str:
    """Prose that Markdown shows as it is: one line, no HTML, no link, no heading; what is in backticks stays code."""
    parts = _SPAN.split(one_line(text))
    shown = "".join(part if number % 2 else _SIGNS.sub(r"\\\g<0>", part) for number, part in enumerate(parts))
    return _BEGIN.sub(lambda found: f"{found[0]}\\" if found[0].isdecimal() else f"\\{found[0]}", shown)


def markdown_code(text: str) -> str:
    """A code span; backticks in it, which would end it, become apostrophes."""
    shown = one_line(text).replace("`", "'")
    return f"`{shown or ' '}`"


def markdown_cell(text: str) -> str:
    """What the others made, for a table's cell: a pipe ends none."""
    # A backslash in front of the pipe would count as the pipe's escape in some readers and as its own in others.
    return text.replace("\\|", "\\ |").replace("|", "\\|")
