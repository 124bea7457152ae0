"""The monitors of agents and nodes: each is told once when its target goes down, a share a step. Sans-IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from ether_actors.supervisor.registry.quota import check_monitor, check_room
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.job_schedule import Job
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import pack
from ether_broker.errors import AccessDenied, TooMuch
from ether_broker.security.access_list import Grant
from ether_broker.transport.sessions.cost import RIGHTS_SHIFT, TOLD_SHIFT
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["CLEARED", "NODE", "TOLD_PER_STEP", "Monitors", "size_of"]

NODE: Final = b"node:"
"""Before the name of a node that is monitored."""
TOLD_PER_STEP: Final = 128
"""Monitors that one step tells."""
_TURN: Final = 16
"""Of them those of one target, after which another has its turn."""
_BYTES: Final = 512
"""Memory of one beside the name of its target."""
CLEARED: Final = 512
"""Monitors of lost nodes that one step forgets."""


class _Watched:
    """An agent, or `node:NAME`, that is monitored: until it goes down, and all have been told."""

    __slots__ = ("by", "reason", "target")

    def __init__(self, target: bytes) -> None:
        self.target = target
        self.by: dict[tuple[Session, bytes], None] = {}
        """(Who has not been told yet, its token)."""
        self.reason = ""
        """Why it went down."""


class Monitors:
    """The monitors of all nodes.

    Args:
        state: of the broker.
        is_absent: whether a node is waited for that is not in; it counts as there.
    """

    def __init__(self, state: BrokerState, is_absent: Callable[[str], bool]) -> None:
        self._state = state
        self._is_absent = is_absent
        self._watched: dict[bytes, _Watched] = {}
        """By name; those that nobody monitors any more are not among them."""
        self.telling: deque[_Watched] = deque()
        """Those that went down and of which not all have been told, whose turn it is first."""
        self._lost: deque[Session] = deque()
        """Nodes that were lost, of whose monitors some are left."""
        self.job: Job = Job(state.schedule, self._go_on)

    def monitor(self, session: Session, header: Header, envelope: bytes) -> None:
        """Tell a node once when an agent, or `node:NAME`, goes down; at once when it is not there (as OTP's monitor).

        What the access list hides from it is not there for it. With `stop` it is told no more; a refusal is told as DOWN.
        """
        target, token = header.target, header.request_id
        self._take_back(session, token)
        if read_map(envelope[header.body :], CONTROL).get("stop"):
            return
        try:
            if not self._may_watch(session, target):
                raise AccessDenied(f"it may not watch {name_of(target[:200])!r}")  # noqa: TRY301  one way out for all
            if not self._is_there(target):
                self._send_down(session, token, target, "unknown")
                return
            check_monitor(session)
            check_room(session, self._state.memory, size_of(target))
        except (AccessDenied, TooMuch) as error:
            self._state.session_table.refusals.note(session.node, error.code, error)
            self._send_down(session, token, target, error.code)
            return
        watched = self._watched.get(target)
        if watched is None:
            watched = self._watched[target] = _Watched(target)
        watched.by[session, token] = None
        session.monitors[token] = watched
        self._state.memory.add(session.account, size_of(target))

    def tell(self, target: bytes, reason: str, payer: Session) -> None:
        """Tell who monitors an agent or a node, a share a step, that it went down; one session pays for that."""
        watched = self._watched.pop(target, None)
        if watched is not None:
            payer.input.spend(len(watched.by) >> TOLD_SHIFT)
            watched.reason = reason
            self.telling.append(watched)
            self.job.wake()

    def _go_on(self) -> float:
        """Tell the next of them, and forget those of lost nodes."""
        left = TOLD_PER_STEP
        while self.telling and left > 0:
            watched = self.telling.popleft()
            for _ in range(min(_TURN, left, len(watched.by))):
                session, token = watched.by.popitem()[0]
                del session.monitors[token]
                self._state.memory.add(session.account, -size_of(watched.target))
                self._send_down(session, token, watched.target, watched.reason)
                left -= 1
            if watched.by:
                self.telling.append(watched)

        left = CLEARED
        while self._lost and left > 0:
            lost = self._lost[0]
            for _ in range(min(left, len(lost.monitors))):
                self._forget(lost, *lost.monitors.popitem())
                left -= 1
            if not lost.monitors:
                self._lost.popleft()
        return 0.0 if self.telling or self._lost else inf

    def clear(self, session: Session) -> None:
        """Forget the monitors of a node that is lost, in this step and the next ones."""
        if session.monitors:
            self._lost.append(session)
            self.job.wake()

    def _take_back(self, session: Session, token: bytes) -> None:
        watched: _Watched | None = session.monitors.pop(token, None)
        if watched is not None:
            self._forget(session, token, watched)

    def _forget(self, session: Session, token: bytes, watched: _Watched) -> None:
        del watched.by[session, token]
        self._state.memory.add(session.account, -size_of(watched.target))
        if not watched.by and self._watched.get(watched.target) is watched:
            del self._watched[watched.target]

    def _may_watch(self, session: Session, target: bytes) -> bool:
        access, node = self._state.access, session.node
        if target in session.agents or target in {NODE, NODE + node.encode()} or access.may_observe(node):
            return True  # `node:` is nobody: a node asks for that to hear when all that came before has been read
        session.input.spend(len(session.rules) >> RIGHTS_SHIFT)
        return Grant(session.rules).knows_agent(name_of(target))

    def _is_there(self, target: bytes) -> bool:
        if target.startswith(NODE):
            node = name_of(target[len(NODE) :])
            return self._state.session_table.find(node) is not None or self._is_absent(node)
        agent = self._state.registry.get(target)
        return agent is not None and agent.is_hosted

    def _send_down(self, session: Session, token: bytes, target: bytes, reason: str) -> None:
        body = pack({"reason": reason, "monitor": to_text(token)})
        self._state.session_table.send(session, pack_envelope(Kind.DOWN, request_id=token, target=target, body=body))


def size_of(target: bytes) -> int:
    """Bytes of memory that a monitor takes, about."""
    return _BYTES + len(target)
