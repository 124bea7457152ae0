"""Dependencies: what the import graph of a directory tells its maintainer."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from ether.review.scout.files.words import plural
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import RULES
from ether.review.scout.findings.truncation import table
from ether.review.scout.passes.pass_report import PassReport
from ether.review.scout.python.import_graph import Edge, ImportGraph, cycles

__all__ = ["dependencies"]

_SHOWN: Final = 6
"""Modules of a cycle named in a message."""
_AGAINST: Final = 3
"""Imports one way for each the other way, from which on it is clear which way they should go."""


def dependencies(graph: ImportGraph, rows: int) -> PassReport:
    """The modules most imported, the cycles at import time with the line of each import, and mutual packages.

    Args:
        graph: of the directory.
        rows: of each table, at most.
    """
    rounds = cycles(graph.edges)
    importers = Counter(edge.target for edge in graph.edges)
    most = sorted(importers.items(), key=lambda item: (-item[1], item[0]))
    data = {
        "modules": len(graph.modules),
        "imports_between_modules": len(graph.edges),
        "most_imported": table(
            ({"module": name, "path": graph.modules[name], "importers": count} for name, count in most), rows
        ),
        "cycles": table(
            ({"steps": [f"{edge.source} ({edge.path}:{edge.line})" for edge in way]} for way in rounds), rows
        ),
    }
    told = []
    if most:
        name, count = most[0]
        told.append(f"`{name}` is needed by {count} of {len(graph.modules)} modules: change it with care.")
    if rounds:
        told.append(f"{plural(len(rounds), 'group')} of modules import one another in a circle.")
    return PassReport([*map(_cycle, rounds), *_mutual(graph)], data, told)


def _cycle(way: list[Edge]) -> Finding:
    names = [edge.source for edge in way]
    shown = " → ".join([*names[:_SHOWN], "…"] if names[_SHOWN:] else [*names, names[0]])
    return RULES["import-cycle"].on(way[0].path, way[0].line, f"`{shown}` import one another when imported")


def _mutual(graph: ImportGraph) -> list[Finding]:
    """Of the pairs of packages the one with the fewest imports against the many: the cheapest to turn round."""
    between: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        pair = _packages(edge)
        if edge.at_import and pair:
            between[pair].append(edge)
    clear = [pair for pair in between if len(between.get(pair[::-1], ())) >= _AGAINST * len(between[pair])]
    if not clear:
        return []
    one, other = min(clear, key=lambda pair: (len(between[pair]), pair))
    edges, back = between[one, other], between[other, one]
    what = (
        f"`{one}` imports `{other}` (in {plural(len(edges), 'module')}, first here) and `{other}` imports `{one}` "
        f"(in {plural(len(back), 'module')}, first in {back[0].path}:{back[0].line})"
    )
    return [RULES["mutual-packages"].on(edges[0].path, edges[0].line, what)]


def _packages(edge: Edge) -> tuple[str, str] | None:
    """The subpackages below the common top that an import joins; None within one, or with the top itself."""
    source, target = edge.source.split("."), edge.target.split(".")
    if source[0] != target[0] or min(len(source), len(target)) < 3:  # noqa: PLR2004 - top.sub.module
        return None
    return None if source[1] == target[1] else (".".join(source[:2]), ".".join(target[:2]))
