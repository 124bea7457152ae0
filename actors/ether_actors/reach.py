"""How far a delegator reaches: the access list, asked for one agent of one node. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ether_actors.registry import Choice, Registration
    from ether_broker.security.access import Access

__all__ = ["Reach"]


class Reach:
    """What one delegator may delegate, and to whom.

    What it may not reach it is not told of either: no alternative, no "did you mean", no condition.
    """

    __slots__ = ("_access", "_name", "_node")

    def __init__(self, access: Access, node: str, source: bytes) -> None:
        self._access = access
        self._node = node
        self._name = source

    @property
    def _source(self) -> str:
        return self._name.decode(errors="replace")

    @property
    def is_open(self) -> bool:
        """Whether there is no access list."""
        return self._access.is_open

    def permits(self, choice: Choice) -> bool:
        """Whether it may delegate to a holder what that makes of the capability."""
        access = self._access
        if access.is_open:
            return True
        name = choice.name.decode(errors="replace")
        return access.may_delegate(self._node, self._source, name, choice.agent.manifest.agent)

    def barred(self, holders: Iterable[Choice]) -> Sequence[Registration]:
        """The holders that it may not delegate to."""
        if self._access.is_open:
            return ()
        return [choice.agent for choice in holders if not self.permits(choice)]

    def knows_agent(self, name: bytes) -> bool:
        """Whether it may know of an agent: there is something that it might delegate to it."""
        return self._access.may_reach(self._node, self._source, name.decode(errors="replace"))

    def knows_capability(self, name: bytes | str) -> bool:
        """Whether it may know of a capability: there is somebody to whom it might delegate it."""
        text = name if isinstance(name, str) else name.decode(errors="replace")
        return self._access.may_ask(self._node, self._source, text)

    def denial(self, capability: bytes, target: bytes) -> str:
        """What is said when it goes too far."""
        to = f" to {target.decode(errors='replace')!r}" if target else ""
        what = capability.decode(errors="replace")
        return f"{self._source} on node {self._node!r} may not delegate {what!r}{to}: the access list does not have it."
