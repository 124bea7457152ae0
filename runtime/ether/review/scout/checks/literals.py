"""Literals that are called, and texts that should stand in no file: tokens and conflict markers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from ether.review.scout.python.module import PythonModule, shown

__all__ = ["called_literal", "conflict_line", "token_in"]

_TOKENS: Final = re.compile(
    r"\b(?:AKIA(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,}|sk_live_[A-Za-z0-9]{24,}"
    r"|xox[baprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}|AIza[0-9A-Za-z_\-]{35}|glpat-[A-Za-z0-9_\-]{20})\b"
)
"""Tokens whose form gives them away: AWS, GitHub, Stripe, Slack, Google, GitLab."""
_MARKERS: Final = (
    re.compile(r"^<{7} \S", re.MULTILINE),
    re.compile(r"^={7}$", re.MULTILINE),
    re.compile(r"^>{7} \S", re.MULTILINE),
)


def called_literal(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    """`("a", 1) (2)` in a list: a comma is missing."""
    for call in module.of(ast.Call):
        if isinstance(call.func, (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)):
            yield call, f"`{shown(call)}`"


def token_in(text: str) -> tuple[int, str] | None:
    """The line of the first token in a text and how it begins, or None."""
    match = _TOKENS.search(text)
    return (text.count("\n", 0, match.start()) + 1, match[0][:8]) if match else None


def conflict_line(text: str) -> int | None:
    """The line of the first conflict marker; None unless all three kinds follow one another."""
    places: list[int] = []
    for marker in _MARKERS:
        match = marker.search(text, places[-1] if places else 0)
        if match is None:
            return None
        places.append(match.start())
    return text.count("\n", 0, places[0]) + 1
