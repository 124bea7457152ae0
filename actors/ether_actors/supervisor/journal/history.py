"""The history in a journal: a fold over everything that passed, to the state in which its broker ended. Sans-IO.

A DELEGATION opens an entry and a terminal RESPONSE ends it; EVENTs say who is there and who was given what. What a
broker refused was opened and ended in one step.

    replay() ─► History.apply(…) ─► open, agents, ended, leases ─► ether_actors.supervisor.recovery
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ether_actors.supervisor.state.agent_states import AgentStates
from ether_actors.supervisor.state.ended import REMEMBERED, Ended
from ether_actors.supervisor.state.lives import pack_lives, read_lives
from ether_broker.envelope.ids import to_bytes
from ether_broker.envelope.names import BUS_PREFIX
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import INTERIM
from ether_broker.errors import EtherError, JournalCorrupt
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.transport.sessions.session import Life
from ether_broker.wire.frame import HEADER, PARENT, REQUEST_ID, Flag, Kind, read_header, rehead
from ether_broker.wire.saved_state import SavedState

__all__ = ["Accepted", "History", "Present"]

_VERSION: Final = 3
"""Of a checkpoint; it rises when an older Ether could not read it."""
_UNCOLLECTED: Final = int(Flag.UNCOLLECTED)
_REFUSED: Final = int(Flag.REFUSED)
_DELEGATION, _RESPONSE, _EVENT = int(Kind.DELEGATION), int(Kind.RESPONSE), int(Kind.EVENT)
_NOT_OURS: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError, EtherError)
_LEFT: Final = "left"
_MOVES: Final = "moves"
_KEPT: Final = ("node_lost", _MOVES)
"""Why an agent is down whose name and mailbox are kept."""
_N_SOURCE: Final = 4
_N_TARGET: Final = 5  # of a header: how long the names are
assert HEADER.size == 48  # noqa: PLR2004  the offsets above and in docs/protocol.md


@dataclass(slots=True)
class Accepted:
    """A delegation that the journal holds as accepted and without an outcome."""

    envelope: bytes
    """As it was accepted, with its deadline by the clock of the history."""
    clock: float
    """When, by the same clock."""
    agent: bytes = b""
    """To whom it was reassigned; empty: to its target."""
    capability: bytes = b""
    attempt: int = 1
    is_running: bool = False
    returns: int = 0
    """How often it was handed back."""
    window: int = 0
    """The largest `Limits.window` of the brokers before the last under which it may have been sent."""
    asked_from: Life | None = None
    """The process that its delegator was in as it asked; None: an older Ether did not note it."""

    @property
    def parent(self) -> bytes:
        """Request id of the delegation that it was made for; zeros without one."""
        return self.envelope[PARENT]

    def shift(self, seconds: float) -> None:
        """Tell its times by a clock that is so many seconds ahead."""
        self.clock += seconds
        header = read_header(self.envelope)
        if header.deadline:
            self.envelope = rehead(header, self.envelope, deadline=header.deadline + seconds)


@dataclass(slots=True)
class Present:
    """An agent that had not left."""

    manifest: bytes
    """Packed, without the agent's name."""
    node: str
    incarnation: bytes
    """Its digest, which is all that the journal is told."""
    is_down: bool = False
    """Whether its node was lost, or it moves: its mailbox is kept."""
    moves: bool = False
    """Whether it moves: what comes meanwhile waits for it."""
    leaving: str = ""
    """Why it leaves for good; empty: it does not. Its work had not all been ruled on."""
    scales: bool = False
    """Whether it is an instance of an agent that scales, of which its node has no more than it has places for."""
    was_another: bool = False
    """Whether it scales and was registered otherwise before, so that its node may have more than that."""
    came: int = field(default=0, compare=False)
    """The number of the event that says that it registered; 0 of one that a checkpoint knows."""
    life: Life = field(init=False)
    """The process that it was in."""

    def __post_init__(self) -> None:
        """Derive the life, once for all that it asks for."""
        self.life = self.node, self.incarnation


class History:
    """The state that a fold over the journal up to `next` led to."""

    def __init__(self, *, remembered: int = REMEMBERED) -> None:
        self.next = 1
        """The number that follows."""
        self.open: dict[bytes, Accepted] = {}
        """{request id: delegation}, oldest first."""
        self.agents: dict[str, Present] = {}
        self.ended = Ended(most=remembered)
        """The newest ended delegations, and which of their outcomes nobody has collected."""
        self.leases: dict[str, tuple[str, bytes, int]] = {}
        """{resource: (agent, request id, token)} of those that were not released."""
        self.states = AgentStates()
        """What the agents have saved."""
        self.token = 0
        """The highest fencing token that was given."""
        self.boot = ""
        """The start of the machine whose clock tells the times here; see `ether_broker.clock.Clock`."""
        self.clock = 0.0
        """When the last step was, by that clock."""
        self.wall = 0.0
        """The same as Unix time."""
        self.silence = 0.0
        """`Timing.silence` of the last broker; 0 if that is not known."""
        self.longest_silence = 0.0
        """The longest by which nodes go that have not joined the last broker yet."""
        self.joined_by = 0.0
        """By when they have joined it or are lost, by `clock`."""
        self.window = 0
        """`Limits.window` of the last broker."""
        self._number = 0
        """Of the envelope that is being folded."""
        self._left: dict[bytes, int] = {}
        """Nodes that leave: {incarnation: the number of the event that says so last}."""

    def begin(self, boot: str, now: float, wall: float, silence: float = 0.0, window: int = 0) -> None:
        """Go on by the clock of another broker.

        It is the same clock if the machine was not restarted. Else the wall clock says how long ago the last step was,
        and one that was set back meanwhile says that no time has passed.

        Args:
            boot: the start of its machine.
            now: seconds by its clock.
            wall: Unix time.
            silence: `Timing.silence` that it gives to its nodes.
            window: its `Limits.window`.
        """
        for accepted in self.open.values():
            accepted.window = max(accepted.window, self.window)
        self.window = window
        have_joined = self.clock >= self.joined_by
        if not boot or boot != self.boot or now < self.clock:
            ahead = now - max(0.0, wall - self.wall) - self.clock
            self.joined_by += ahead
            for accepted in self.open.values():
                accepted.shift(ahead)
        self.boot, self.clock, self.wall = boot, now, wall
        newer = max(self.silence, silence)
        if have_joined:
            self.longest_silence, self.joined_by = newer, 0.0
        self.longest_silence = max(self.longest_silence, newer)
        self.joined_by = max(self.joined_by, now + 3 * newer)
        self.silence = silence

    def apply(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> None:
        """Go on with what one step let pass.

        Raises:
            JournalCorrupt: an envelope is not what a broker writes.
        """
        try:
            self._fold(first, time, envelopes)
        except _NOT_OURS as error:
            msg = f"What the journal has behind number {self.next} is not what a broker writes: {error!r}."
            raise JournalCorrupt(msg) from error
        self.next = first + len(envelopes)
        self.clock, self.wall = time, wall

    def _fold(self, first: int, time: float, envelopes: Sequence[bytes]) -> None:
        opened = self.open
        for number, envelope in enumerate(envelopes, first):
            kind = envelope[0]
            if kind == _DELEGATION:
                request_id = _id_of(envelope)
                opened[request_id] = Accepted(envelope, time, asked_from=self._asking(envelope))
            elif kind == _RESPONSE:
                request_id = _id_of(envelope)
                if envelope[1] not in INTERIM:
                    if (accepted := opened.pop(request_id, None)) is not None:
                        self._end(request_id, envelope, number, accepted.asked_from)
                elif request_id in opened:
                    opened[request_id].is_running = True
            elif kind == _EVENT:
                self._number = number
                self._event(envelope)

    def _asking(self, envelope: bytes) -> Life | None:
        """The process that says a DELEGATION; None for the bus's own, which delivers events."""
        agent = self.agents.get(envelope[HEADER.size : HEADER.size + envelope[_N_SOURCE]].decode(errors="replace"))
        return None if agent is None else agent.life

    def _end(self, request_id: bytes, envelope: bytes, number: int, asked_from: Life | None) -> None:
        source = HEADER.size + envelope[_N_SOURCE]  # read_header would be half of what a replay takes
        target = source + envelope[_N_TARGET]
        delegator = b"" if envelope.startswith(BUS_PREFIX, target) else envelope[source:target]
        if envelope[3] & _UNCOLLECTED:
            self.ended.keep(request_id, delegator)
        by = b"" if envelope[3] & _REFUSED else envelope[HEADER.size : source]
        self.ended.note(request_id, by, delegator, number, asked_from if delegator else None)

    def _event(self, envelope: bytes) -> None:
        body: dict[str, Any] = unpack(envelope[read_header(envelope).body :])
        handle = _EVENTS.get(body["event"])
        if handle is not None:
            handle(self, body)

    def _agent_up(self, body: dict[str, Any]) -> None:
        manifest = self.agents[body["like"]].manifest if "like" in body else body["manifest"]
        before, scales = self.agents.get(body["agent"]), body.get("scales") is True
        was_another = scales and before is not None and (
            before.was_another or not before.scales or before.manifest != manifest
        )  # fmt: skip
        self.agents[body["agent"]] = Present(
            manifest, body["node"], body["incarnation"], scales=scales, was_another=was_another, came=self._number
        )

    def _agent_down(self, body: dict[str, Any]) -> None:
        agent = self.agents.get(body["agent"])
        if agent is not None and body["reason"] in _KEPT:
            agent.is_down, agent.moves, agent.leaving = True, body["reason"] == _MOVES, ""
        elif agent is not None:
            del self.agents[body["agent"]]

    def _agent_leaving(self, body: dict[str, Any]) -> None:
        agent = self.agents.get(body["agent"])
        if agent is not None:
            agent.leaving, agent.is_down, agent.moves = body["reason"], False, False
            for request_id in body.get("held", ()):
                if (accepted := self.open.get(request_id)) is not None:
                    accepted.is_running = True

    def _node_leaving(self, body: dict[str, Any]) -> None:
        self._left[body["incarnation"]] = self._number  # its agents are looked for once, by `leaving`: they may be many

    def leaving(self) -> dict[str, str]:
        """Agents that leave for good and whose work had not all been ruled on: {agent: why}."""
        if self._left:
            for agent in self.agents.values():
                if agent.came <= self._left.get(agent.incarnation, -1) and not agent.is_down:
                    agent.leaving = agent.leaving or _LEFT
            self._left.clear()
        return {name: agent.leaving for name, agent in self.agents.items() if agent.leaving}

    def _agent_forgotten(self, body: dict[str, Any]) -> None:
        self.agents.pop(body["agent"], None)

    def _outcomes_unread(self, body: dict[str, Any]) -> None:
        for request_id, source in body["outcomes"]:
            self.ended.keep(request_id, source)

    def _outcomes_claimed(self, body: dict[str, Any]) -> None:
        for request_id in body["outcomes"]:
            if (accepted := self.open.get(request_id)) is not None:
                accepted.asked_from = body["node"], body["incarnation"]

    def _outcomes_collected(self, body: dict[str, Any]) -> None:
        for request_id in body["outcomes"]:
            self.ended.collected(request_id)

    def _reassigned(self, body: dict[str, Any]) -> None:
        accepted = self.open.get(to_bytes(body["request_id"]))
        if accepted is not None:
            accepted.agent = body["agent"].encode()
            accepted.capability = body["capability"].encode()
            accepted.attempt = body["attempt"]
            accepted.returns = body.get("returns", 0)
            accepted.is_running = False

    def _lease_granted(self, body: dict[str, Any]) -> None:
        self.leases[body["resource"]] = body["agent"], to_bytes(body["request_id"]), body["token"]
        self.token = max(self.token, body["token"])

    def _lease_released(self, body: dict[str, Any]) -> None:
        held = self.leases.get(body["resource"])
        if held is not None and held[2] == body["token"]:
            del self.leases[body["resource"]]

    def _agent_state(self, body: dict[str, Any]) -> None:
        self.states.put(
            body["agent"], SavedState(body["number"], body["instance"], body["version"], body["state"], body["owner"])
        )

    def _agent_state_forgotten(self, body: dict[str, Any]) -> None:
        self.states.discard(body["agent"])

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def pack(self) -> bytes:
        """The state as bytes, for a checkpoint; a manifest that many agents have is in it once."""
        manifests: dict[bytes, int] = {}
        for agent in self.agents.values():
            manifests.setdefault(agent.manifest, len(manifests))
        return pack({
            "version": _VERSION,
            "next": self.next,
            "open": [
                [work.envelope, work.clock, work.agent, work.capability, work.attempt, work.is_running, work.returns]
                for work in self.open.values()
            ],
            "asked_from": pack_lives(work.asked_from for work in self.open.values()),
            "manifests": list(manifests),
            "agents": [
                [name, manifests[agent.manifest], agent.node, agent.incarnation, agent.is_down]
                for name, agent in self.agents.items()
            ],
            "leaving": self.leaving(),
            "moving": [name for name, agent in self.agents.items() if agent.moves],
            "scaling": {name: agent.was_another for name, agent in self.agents.items() if agent.scales},
            "ended": self.ended.pack(),
            "leases": [[resource, *held] for resource, held in self.leases.items()],
            "states": self.states.pack(),
            "token": self.token,
            "time": [self.boot, self.clock, self.wall],
            "silences": [self.silence, self.longest_silence, self.joined_by],
            "window": self.window,
            "windows": [[id_, work.window] for id_, work in self.open.items() if work.window > self.window],
        })  # fmt: skip

    @classmethod
    def of(cls, body: bytes, *, remembered: int = REMEMBERED) -> History:
        """Read what `pack` made.

        Raises:
            JournalCorrupt: it is something else, or of a newer version.
        """
        history = cls()
        try:
            state: dict[str, Any] = unpack(body)
            if state["version"] == 1:
                state = _brought_forward(state)
            if state["version"] == 2:  # noqa: PLR2004  nothing had been handed back, as far as it knows
                state = {**state, "version": 3, "open": [[*work, 0] for work in state["open"]]}
            if state["version"] != _VERSION:
                msg = (
                    f"The journal's checkpoint has version {state['version']} and this Ether reads {_VERSION}: use the "
                    "agent-ether that wrote it."
                )
                raise JournalCorrupt(msg)  # noqa: TRY301  one way out for all
            (history.next,) = _checked([state["next"]], _NUMBER)
            works = [Accepted(*_checked(work, _WORK)) for work in state["open"]]
            history.open = {_id_of(work.envelope): work for work in works}
            for work, life in zip(works, read_lives(state.get("asked_from"), len(works)), strict=True):
                work.asked_from = life
            agents = [_checked(agent, _AGENT) for agent in state["agents"]]
            manifests = _checked(state["manifests"], (bytes,) * len(state["manifests"]))
            history.agents = {name: Present(manifests[kind], *agent) for name, kind, *agent in agents}
            history._mark_agents(state)
            history.ended = Ended.of(state["ended"], most=remembered)
            leases = [_checked(lease, _LEASE) for lease in state["leases"]]
            history.leases = {resource: (agent, holder, token) for resource, agent, holder, token in leases}
            for name, *saved in state.get("states", ()):  # an older Ether wrote none
                history.states.put(name, SavedState(*_checked(saved, _STATE)))
            (history.token,) = _checked([state["token"]], _NUMBER)
            history.boot, history.clock, history.wall = _checked(state["time"], _TIME)
            silences = _checked(state.get("silences", [0.0, 0.0, 0.0]), (float, float, float))
            history.silence, history.longest_silence, history.joined_by = silences
            (history.window,) = _checked([state.get("window", Limits().window)], _NUMBER)  # an older Ether wrote none
            for id_, window in state.get("windows", ()):
                (history.open[id_].window,) = _checked([window], _NUMBER)
        except JournalCorrupt:
            raise
        except _NOT_OURS as error:
            msg = f"The journal's checkpoint is not what a broker writes: {error!r}."
            raise JournalCorrupt(msg) from error
        return history

    def _mark_agents(self, state: dict[str, Any]) -> None:
        """Take from a checkpoint what it says of some agents only; an older Ether wrote none of it."""
        for name, reason in state.get("leaving", {}).items():
            (self.agents[name].leaving,) = _checked([reason], (str,))
        for name in state.get("moving", ()):
            self.agents[name].moves = True
        for name, was_another in state.get("scaling", {}).items():
            (self.agents[name].was_another,) = _checked([was_another], (bool,))
            self.agents[name].scales = True


def _brought_forward(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint of version 1 as one of version 2: who an ended delegation was for, and its number, are not known."""
    manifests = list(dict.fromkeys(agent[1] for agent in state["agents"]))
    owners = dict(state["uncollected"])
    return {
        **state,
        "version": 2,
        "open": [[envelope, *rest] for envelope, _wall, *rest in state["open"]],
        "manifests": manifests,
        "agents": [[name, manifests.index(packed), *rest[:3]] for name, packed, *rest in state["agents"]],
        "ended": {
            "older": [],
            "newer": [[request_id, by, owners.get(request_id, b""), 0] for request_id, by in state["ended"]],
            "dropped": [False, b""],
            "uncollected": state["uncollected"],
        },
        "time": [
            "",
            max((clock for _, _, clock, *_ in state["open"]), default=0.0),
            max((wall for _, wall, *_ in state["open"]), default=0.0),
        ],
    }


_NUMBER: Final = (int,)
_TIME: Final = (str, float, float)
_WORK: Final = (bytes, float, bytes, bytes, int, bool, int)
_AGENT: Final = (str, int, str, bytes, bool)
_LEASE: Final = (str, str, bytes, int)
_STATE: Final = (int, bytes, int, bytes, str)


def _id_of(envelope: bytes) -> bytes:
    """As `read_header(…).request_id`, in a tenth of the time."""
    if len(envelope) < HEADER.size:
        msg = f"an envelope of {len(envelope)} bytes"
        raise ValueError(msg)
    return envelope[REQUEST_ID]


def _checked(values: Sequence[Any], kinds: tuple[type, ...]) -> Sequence[Any]:
    if tuple(map(type, values)) != kinds:
        msg = f"{values!r:.200} where {', '.join(kind.__name__ for kind in kinds)} is due"
        raise TypeError(msg)
    return values


_EVENTS: Final = {
    "agent_up": History._agent_up,  # noqa: SLF001  its own table
    "agent_down": History._agent_down,  # noqa: SLF001
    "agent_leaving": History._agent_leaving,  # noqa: SLF001
    "node_leaving": History._node_leaving,  # noqa: SLF001
    "agent_forgotten": History._agent_forgotten,  # noqa: SLF001
    "outcomes_unread": History._outcomes_unread,  # noqa: SLF001
    "outcomes_claimed": History._outcomes_claimed,  # noqa: SLF001
    "outcomes_collected": History._outcomes_collected,  # noqa: SLF001
    "reassigned": History._reassigned,  # noqa: SLF001
    "lease_granted": History._lease_granted,  # noqa: SLF001
    "lease_released": History._lease_released,  # noqa: SLF001
    "agent_state": History._agent_state,  # noqa: SLF001
    "agent_state_forgotten": History._agent_state_forgotten,  # noqa: SLF001
}
