"""Text that a terminal would obey, and what must be left of it nowhere."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

__all__ = ["FORGED", "HOSTILE", "obeyed"]

FORGED: Final = "FORGED LINE"
"""What a newline of the text tries to put at the begin of a line."""
HOSTILE: Final = (
    "\x1b]0;PWNED\x07\x1b[2J\x1b[31m\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\ red \x9b31m \x85\x90\x7f\x00\x08 "
    "\u202egnp.exe\u202c \u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\u200c\u200d\u2060\ufeff\u00ad \u2028\u2029 \u3164 "
    "a" + "\u0301" * 40 + " \U000e0041\ue000\x1c\x1d\v\f [bold red]markup[/] [link=http://evil.example]x[/link] "
    f"<img src=x> | # `b` *c*\r\n{FORGED} ok\n# {FORGED}"
)  # fmt: skip


def obeyed(shown: str) -> list[str]:
    """What in a text a terminal would obey, nobody would see, or that looks like a line of its own; empty is safe."""
    found = [f"{sign!r} in {shown[max(0, at - 30) : at + 10]!r}" for at, sign in enumerate(shown) if _is_obeyed(sign)]
    found += [f"marks in {match[0]!r}" for match in re.finditer(r"[^\W\d_]?\u0301{5,}", shown)]
    found += [f"forged: {line!r}" for line in shown.split("\n") if re.match(rf"(# )?{FORGED}", line)]
    return found


def _is_obeyed(sign: str) -> bool:
    return category(sign) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and sign not in "\n\t"
