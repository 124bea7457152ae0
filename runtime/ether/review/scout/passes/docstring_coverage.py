"""Docstring coverage: which public symbols are explained."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from ether.review.scout.files.words import words
from ether.review.scout.findings.bounded_table import table
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.python.module import PythonModule
from ether.review.scout.python.outline import Symbol

__all__ = ["Coverage"]


_SAME_TEXT: Final = words("overload setter deleter override overrides")
"""Decorators of definitions whose docstring stands elsewhere."""
_LONG_ENOUGH: Final = 40
"""Lines: a shorter one may explain itself."""
_MAX_FINDINGS: Final = 3
"""The largest are told one by one; the tables count the rest."""


@dataclass(frozen=True, slots=True)
class _Public:
    path: str
    symbol: Symbol
    owner_has_bases: bool

    @property
    def may_inherit(self) -> bool:
        """Whether `help` may show the docstring of a base."""
        return self.owner_has_bases or (self.symbol.kind == "class" and "(" in self.symbol.signature)

    @property
    def top(self) -> str:
        return self.symbol.qualname.partition(".")[0]


class Coverage:
    """Collects public symbols; what packages export settles which symbols of private modules are."""

    def __init__(self) -> None:
        self._symbols: list[_Public] = []
        self._modules: dict[str, bool] = {}
        self._exported: set[tuple[str, str]] = set()

    def add(self, module: PythonModule, outline: list[Symbol]) -> None:
        """Take a module in; tests have no public symbols."""
        if module.source.is_test:
            return
        if module.is_init:
            for node in module.of(ast.ImportFrom):
                source = (node.module or "").rpartition(".")[2]
                self._exported.update((source, alias.name) for alias in node.names)
        self._modules[module.name] = ast.get_docstring(module.tree, clean=False) is not None
        for top in outline:
            self._take(module.name, top, owner_has_bases=False)
            if top.kind == "class":
                for method in top.children:
                    self._take(module.name, method, owner_has_bases="(" in top.signature)

    def _take(self, path: str, symbol: Symbol, *, owner_has_bases: bool) -> None:
        if symbol.is_public and _SAME_TEXT.isdisjoint(symbol.decorators):
            self._symbols.append(_Public(path, symbol, owner_has_bases))

    def _public(self) -> list[_Public]:
        """What users can reach: symbols of public modules, and those that a package exports.

        A method without a docstring in a class with bases is left out when another class documents a method
        of that
        name: it overrides, and `help` shows the other's text.
        """
        explained = {one.symbol.name for one in self._symbols if one.symbol.documented and one.symbol.kind == "method"}
        return [
            one
            for one in self._symbols
            if not _is_private(one.path) or (PurePosixPath(one.path).stem, one.top) in self._exported
            if one.symbol.documented or not (one.owner_has_bases and one.symbol.name in explained)
        ]

    def findings(self) -> list[Finding]:
        """The largest public symbols without a docstring of their own or of a base."""
        large = [one for one in self._public() if one.symbol.lines >= _LONG_ENOUGH and not one.symbol.documented]
        gaps = [one for one in large if not one.may_inherit]
        gaps.sort(key=lambda one: (-one.symbol.lines, one.path, one.symbol.line))
        return [
            RULES["missing-docstring"].on(
                one.path,
                one.symbol.line,
                f"The {one.symbol.kind} `{one.symbol.qualname}` ({one.symbol.lines} lines) has no docstring",
                symbol=one.symbol.qualname,
            )
            for one in gaps[:_MAX_FINDINGS]
        ]

    def percent(self) -> float | None:
        """How many of a hundred public symbols have a docstring; None without public symbols."""
        public = self._public()
        return round(100 * sum(one.symbol.documented for one in public) / len(public), 1) if public else None

    def to_json(self, rows: int) -> dict[str, Any]:
        """Public and documented symbols by kind, and the modules with the most gaps."""
        public = self._public()
        kinds: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        modules: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for one in public:
            for counts in (kinds[one.symbol.kind], modules[one.path]):
                counts[0] += 1
                counts[1] += one.symbol.documented
        gaps = sorted(modules.items(), key=lambda item: (item[1][1] - item[1][0], item[0]))
        return {
            "public": len(public),
            "documented": sum(one.symbol.documented for one in public),
            "percent": self.percent(),
            "by_kind": {kind: {"public": total, "documented": told} for kind, (total, told) in sorted(kinds.items())},
            "modules": len(self._modules),
            "modules_documented": sum(self._modules.values()),
            "gaps": table(
                ({"path": path, "public": total, "documented": told} for path, (total, told) in gaps if told < total),
                rows,
            ),
        }


def _is_private(path: str) -> bool:
    """Whether a module, or a package above it, has a name with an underscore in front; `__init__` has two."""
    parts = PurePosixPath(path).with_suffix("").parts
    return any(part.startswith("_") and not part.startswith("__") for part in parts)
