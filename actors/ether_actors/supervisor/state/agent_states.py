"""The states that agents have saved, by name: what an agent of that name begins with, on whatever node. Sans-IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ether_broker.sorted_keys import SortedKeys
from ether_broker.wire.saved_state import SavedState

__all__ = ["MOST_STATES", "AgentStates"]

MOST_STATES: Final = 64 << 20
"""Bytes of all of them, with `_RECORD` for each; the nodes of one key, or a node without one, may have half of it."""
_RECORD: Final = 256
"""Bytes beside the state and twice the agent's name, which is in the index too, that each one counts."""


class AgentStates:
    """The saved states of all agents, bounded in bytes. None is forgotten unless somebody asks for that."""

    def __init__(self) -> None:
        self._states: dict[str, SavedState] = {}
        self._names: SortedKeys[str] = SortedKeys()
        self._bytes = 0
        self._of_owner: Counter[str] = Counter()

    def get(self, agent: str) -> SavedState | None:
        """What that agent has saved."""
        return self._states.get(agent)

    def has_room(self, agent: str, state: SavedState) -> bool:
        """Whether a state fits in, in the place of the one before it."""
        known = self._states.get(agent)
        more = len(state.data) - len(known.data) if known is not None else _size(agent, state)
        own = self._of_owner[state.owner] + (
            more if known is not None and known.owner == state.owner else _size(agent, state)
        )
        return self._bytes + more <= MOST_STATES and (not state.owner or own <= MOST_STATES >> 1)

    def put(self, agent: str, state: SavedState) -> None:
        """Keep a state, in the place of the one before it."""
        self.discard(agent)
        self._states[agent] = state
        self._names.add(agent)
        size = _size(agent, state)
        self._bytes += size
        self._of_owner[state.owner] += size

    def discard(self, agent: str) -> bool:
        """Forget an agent's state; whether there was one."""
        known = self._states.pop(agent, None)
        if known is None:
            return False
        self._names.remove(agent)
        size = _size(agent, known)
        self._bytes -= size
        self._of_owner[known.owner] -= size
        if not self._of_owner[known.owner]:
            del self._of_owner[known.owner]
        return True

    def after(self, agent: str | None) -> Iterator[tuple[str, SavedState]]:
        """Those of the agents whose names are above one, in order; all of them after None."""
        for name in self._names.after(agent):
            yield name, self._states[name]

    def pack(self) -> list[list[object]]:
        """All of them, for a checkpoint."""
        return [
            [name, state.number, state.incarnation, state.version, state.data, state.owner]
            for name, state in self._states.items()
        ]


def _size(agent: str, state: SavedState) -> int:
    return len(state.data) + 2 * len(agent) + _RECORD
