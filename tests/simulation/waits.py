"""How long frames wait for their turn at the broker: who means well must not wait for who does not.

The measure is what the broker handles meanwhile, in envelopes: it is the same on every machine. What is handled while a frame
waits for a disk that takes nothing, however many others send, is none of its wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ether_broker.wire.frame import read_number

if TYPE_CHECKING:
    from ether_actors.supervisor.supervisor import Supervisor
    from ether_broker.transport.channel import Channel
    from ether_broker.transport.sessions.session import Session
    from tests.simulation.world import World

__all__ = ["Waits"]


class Waits:
    """Counts the envelopes that are handled between a frame's coming to the broker's socket and its own; of honest nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.handled = 0
        """Envelopes that all brokers have handled."""
        self._waiting: dict[Channel, deque[tuple[int, int]]] = {}
        """{channel: (number, what had been handled) of the frames of an honest node that were not handled yet}."""
        self.longest = 0
        """Envelopes for which one of them has waited at most."""
        self._stepped = 0
        """What had been handled when the last step ended."""
        self._held: set[Channel] = set()
        """The channels whose next frame waited then for the disk."""

    def clear(self) -> None:
        """Forget what waits: the broker is gone, and its socket with it."""
        self._waiting.clear()
        self._held.clear()

    def arrived(self, routing_id: bytes, frame: bytes) -> None:
        """See a frame come."""
        number, supervisor = read_number(frame), self._world.broker.supervisor
        session = None if supervisor is None else supervisor.state.session_table.by_address.get(routing_id)
        if not number or session is None or session.incarnation not in self._world.honest:
            return
        frames = self._waiting.setdefault(session.channel, deque())
        expected = frames[-1][0] + 1 if frames else session.channel.received + 1
        if number == expected:  # else something before it is missing, and it comes again
            frames.append((number, self.handled))

    def count(self, supervisor: Supervisor) -> None:
        """Count what a supervisor handles, from now on."""
        take = supervisor._take

        def counted(*arguments: Any) -> None:
            self.handled += 1
            take(*arguments)

        supervisor._take = counted  # type: ignore[method-assign]

    def stepped(self, supervisor: Supervisor) -> None:
        """See a step end."""
        passed, self._stepped = self.handled - self._stepped, self.handled
        before, self._held = self._held, set()
        for session in supervisor.state.session_table.sessions:
            frames = self._waiting.get(session.channel)
            while frames and frames[0][0] <= session.handled:
                self.longest = max(self.longest, self.handled - frames.popleft()[1])
            if frames and _is_held(supervisor, session):
                self._held.add(session.channel)
                if session.channel in before:
                    self._waiting[session.channel] = deque((number, since + passed) for number, since in frames)


def _is_held(supervisor: Supervisor, session: Session) -> bool:
    """Whether a session's next envelope cannot be ruled on before the journal has been written."""
    state, is_free = supervisor.state, session.input.blocked
    return (state.is_behind or state.is_unread) and is_free is not None and not is_free()
