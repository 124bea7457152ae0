"""Import cycles: modules that need one another while they are imported."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from ether.review.scout.python.import_graph import Edge

__all__ = ["cycles"]


_STARTS: Final = 64
"""Modules of a knot from which a way round is looked for: from all of a large one it would take quadratic time."""


def cycles(edges: Iterable[Edge]) -> list[list[Edge]]:
    """For each group of modules that import one another when imported, a short way round, as its edges.

    It is the shortest through any of the first 64 modules of the group, by name.

    Imports inside functions and under TYPE_CHECKING do not count: that is how a cycle is broken.
    """
    graph: dict[str, dict[str, Edge]] = {}
    for edge in edges:
        if edge.at_import:
            graph.setdefault(edge.source, {})[edge.target] = edge
    rounds = []
    for group in _groups(graph):
        candidates = (_shortest(graph, start, group) for start in sorted(group)[:_STARTS])
        rounds.append(min((found for found in candidates if found), key=len))
    return sorted(rounds, key=lambda way: (len(way), way[0].source))


def _groups(graph: dict[str, dict[str, Edge]]) -> list[set[str]]:
    """Strongly connected components of two modules or more: Tarjan's, with a stack instead of recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    groups: list[set[str]] = []
    for root in sorted(graph):
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = _pop_group(stack, on_stack, node)
                    if len(group) > 1:
                        groups.append(group)
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(sorted(graph.get(target, {})))))
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return groups


def _pop_group(stack: list[str], on_stack: set[str], last: str) -> set[str]:
    group: set[str] = set()
    while last not in group:
        member = stack.pop()
        on_stack.discard(member)
        group.add(member)
    return group


def _shortest(graph: dict[str, dict[str, Edge]], start: str, group: set[str]) -> list[Edge]:
    """The edges of a shortest way from a module back to itself, breadth first."""
    came_by: dict[str, Edge] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target, edge in sorted(graph.get(node, {}).items()):
            if target == start:
                way = [edge]
                while way[-1].source != start:
                    way.append(came_by[way[-1].source])
                return way[::-1]
            if target in group and target not in came_by:
                came_by[target] = edge
                queue.append(target)
    return []
