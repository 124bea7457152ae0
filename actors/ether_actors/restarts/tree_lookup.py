"""The lookup of a child in a tree by its path, and the error for a path that leads nowhere."""

from __future__ import annotations

from ether_actors.restarts.events import ChildPath
from ether_actors.restarts.tree import Child, Lifecycle, SupervisorState, Worker, walk
from ether_broker.errors import Closed, InvalidSpec, Unavailable
from ether_broker.name_hint import nearest

__all__ = ["accepting", "find", "find_worker", "text"]


def text(path: ChildPath) -> str:
    """The path as people read it: `root/writers/outline`."""
    return "/".join(path)


def find(root: SupervisorState, path: ChildPath) -> Child | None:
    """The child of that path, or None; O(length of the path)."""
    found: Child | None = root if path[:1] == root.path else None
    for id_ in path[1:]:
        found = found.children.get(id_) if isinstance(found, SupervisorState) else None
    return found


def find_worker(root: SupervisorState, path: ChildPath, incarnation: int | None) -> Worker | None:
    """The agent that a report is about, or None if the report comes too late."""
    child = find(root, path)
    if not isinstance(child, Worker) or not child.state.is_alive:
        return None
    return child if incarnation is None or incarnation == child.incarnation else None


def accepting(root: SupervisorState, path: ChildPath) -> SupervisorState:
    """The supervisor of that path, which takes changes.

    Raises:
        InvalidSpec: there is none.
        Closed: the tree is stopping or has ended.
        Unavailable: the supervisor is not up.
    """
    child = find(root, path)
    if child is None:
        known = [text(child.path) for child in walk(root)]
        raise InvalidSpec(f"There is no child {text(path)!r}.{nearest(text(path), known)}")
    if not isinstance(child, SupervisorState):
        raise InvalidSpec(f"{text(path)} is an agent; name its supervisor, {text(path[:-1])!r}.")
    if root.state in {Lifecycle.STOPPING, Lifecycle.DONE}:
        raise Closed(f"The tree {root.id!r} is stopping or has ended, and takes no changes.")
    if child.state not in {Lifecycle.STARTING, Lifecycle.RUNNING}:
        raise Unavailable(f"Supervisor {text(path)} is {child.state.value}; try again when it runs.")
    return child
