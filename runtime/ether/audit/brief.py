"""A value in few words, for a line or a field of text."""

from __future__ import annotations

import json

from ether_broker.text import json_text

__all__ = ["brief"]


def brief(value: object) -> str:
    """A value as JSON in a line, text as it is; bytes tell only how many they are, and nothing is empty."""
    if value is None or value == {}:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return str(_plain(value))
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except TypeError:  # a key that JSON has not, such as bytes
        return json_text(value)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    return str(value)
