"""Import cycles: modules that need one another while they are imported."""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

from ether.review.scout.python.import_graph import Edge

__all__ = ["cycles"]


_STARTS: Final = 64
"""Modules of a knot from which a way round is looked for: from all of a large one it would take quadratic time."""


def cycles(edges: Iterable[Edge]) -> list[list[Edge]]:
    """For each group of modules that import one another when imported, a short way round, as its edges.

    It is the shortest through any of the first 64 modules of the group, by name.

    Imports inside functions and under TYPE_CHECKING do not count: that is how a cycle is broken. Nor do those
    of a package from the modules in it: it has begun before they do, and mostly has what they take.
    """
    graph: dict[str, dict[str, Edge]] = defaultdict(dict)
    back: dict[str, dict[str, Edge]] = defaultdict(dict)
    for edge in edges:
        if edge.at_import and not edge.source.startswith(f"{edge.target}."):
            graph[edge.source][edge.target] = back[edge.target][edge.source] = edge
    left = _in_order(graph) & _in_order(back)
    rounds = []
    while left:
        group = _reached(graph, min(left), left) & _reached(back, min(left), left)
        left -= group
        if len(group) > 1:
            candidates = (_shortest(graph, start, group) for start in sorted(group)[:_STARTS])
            rounds.append(min((found for found in candidates if found), key=len))
    return sorted(rounds, key=lambda way: (len(way), way[0].source))


def _in_order(graph: Mapping[str, Iterable[str]]) -> set[str]:
    """What is left of a graph when all is taken away that has an order: what a cycle needs, and the cycles."""
    order = TopologicalSorter(graph)
    left = set(graph).union(*graph.values())
    with contextlib.suppress(CycleError):  # it still gives what comes before a cycle
        order.prepare()
    while ready := order.get_ready():
        left.difference_update(ready)
        order.done(*ready)
    return left


def _reached(graph: Mapping[str, Iterable[str]], start: str, within: set[str]) -> set[str]:
    found, pending = {start}, [start]
    while pending:
        further = within.intersection(graph.get(pending.pop(), ())) - found
        found |= further
        pending += further
    return found


def _shortest(graph: Mapping[str, dict[str, Edge]], start: str, group: set[str]) -> list[Edge]:
    """The edges of a shortest way from a module back to itself, breadth first."""
    came_by: dict[str, Edge] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target, edge in sorted(graph[node].items()):
            if target == start:
                way = [edge]
                while way[-1].source != start:
                    way.append(came_by[way[-1].source])
                return way[::-1]
            if target in group and target not in came_by:
                came_by[target] = edge
                queue.append(target)
    return []
