"""Text of strangers, made fit for a terminal: what an agent wrote must not move somebody's cursor."""

from __future__ import annotations

import json

__all__ = ["brief", "one_line", "printable"]


def printable(text: str) -> str:
    """The text with line ends and tabs kept; everything else that a terminal would obey is written out, as repr does."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else _escaped(sign) for sign in text)


def one_line(text: str, most: int | None = None) -> str:
    """The text as one printable line: blanks of any kind become one, and what is over `most` characters `…`."""
    if most is not None and len(text) > 4 * most:
        text = text[: 4 * most] + "…"  # a megabyte of parameters need not be looked at sign by sign
    line = printable(" ".join(text.split()))
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


def brief(value: object) -> str:
    """A value as JSON in a line, text as it is; bytes tell only how many they are, and nothing is empty."""
    if value is None or value == {}:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return str(_plain(value))
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    return str(value)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode()
