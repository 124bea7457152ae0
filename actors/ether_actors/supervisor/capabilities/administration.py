"""The supervisor's own capabilities, `ether.*`: what the bus tells of itself, asked for like any other work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ether_actors.supervisor.capabilities.event_service import EventService
from ether_actors.supervisor.capabilities.lease_service import LeaseService
from ether_actors.supervisor.capabilities.pages import Place, page, text, whole
from ether_actors.supervisor.capabilities.state_service import StateService
from ether_actors.supervisor.delegations.delivery import Delivery
from ether_actors.supervisor.delegations.rejection import Rejection
from ether_actors.supervisor.journal.journal_gc import JournalGc
from ether_actors.supervisor.registry.hint_cost import hint
from ether_actors.supervisor.registry.registration import Choice, Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import Entry, State
from ether_broker.dead_letters import DeadLetter, Reason
from ether_broker.encoding.bounded import MANIFEST, QUESTION, read, read_map
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.manifest.manifest import SCHEMAS, Capability, Manifest
from ether_broker.envelope.names import BUS_PREFIX, PUBLISH, SUPERVISOR
from ether_broker.envelope.payload import Payload
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import BY_CODE, Status
from ether_broker.envelope.views.suggestion import THRESHOLD, SuggestionRecord
from ether_broker.errors import AccessDenied, EtherError, InvalidEnvelope
from ether_broker.name_hint import nearest
from ether_broker.transport.sessions.cost import ANSWER_SHIFT, NAMED_SHIFT, reading
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.turns import InputQueue
from ether_broker.wire.frame import Header, Kind, name_of, read_header

__all__ = ["Administration"]

logger: logging.Logger = logging.getLogger("ether.supervisor")


_SCHEMAS: Final = 512
"""Points of reading the schemas of one page of manifests, and what the last manifest is above them."""
_RANGE: Final = 256 << 10
"""Bytes of a dead letter that one answer shows."""
_DETAIL: Final = 1_000
"""Characters of why it died that a list shows."""
_ENDED: Final = 1 << 62
"""Added to the numbers of outcomes that nobody has collected: in a list they are behind all that is open."""
STALLED: Final = 1.5
"""Heartbeats without a sign of life of its node after which an agent is called stalled: one is missing."""


class Administration:
    """The agent `ether`: answers delegations of `ether.*`, most of them at once, inside the supervisor's step.

    They are accepted, journaled and ended as all others are; only that nobody else may have them, and that the access list says
    who may ask, or change something by asking.
    """

    def __init__(  # noqa: PLR0917  made once, in one place
        self, state: BrokerState, delivery: Delivery, lease_service: LeaseService, event_service: EventService,
        state_service: StateService, journal_gc: JournalGc,
    ) -> None:  # fmt: skip
        self._state = state
        self._delivery = delivery
        self.lease_service = lease_service
        self.event_service = event_service
        self.state_service = state_service
        self.journal_gc = journal_gc
        state.bus.manifest = Manifest(agent=SUPERVISOR, capabilities=tuple(map(_capability, _ACTIONS)))

    def choose(self, session: Session, header: Header, envelope: bytes) -> Choice:
        """What a question asks for; the body has not been read.

        Raises:
            Rejection: there is no such question, who asks may not, or the body is too large to be read.
        """
        bus, name = self._state.bus, name_of(header.capability)
        choice = self._state.registry.resolve(bus, header.capability)
        if choice is None or choice.tier or header.target not in {b"", bus.name}:
            message = f"The bus has no such capability.{nearest(name, _ACTIONS)}"
            raise Rejection(Status.REJECTED_CAPABILITY, "no_holder", message, reason=Reason.NO_HOLDER)
        self._check_access(session, header.source, name, change=name in _CHANGING)
        size = len(envelope) - header.body
        if size > QUESTION.size:
            message = f"A question to the bus has {QUESTION.size:,} bytes at most, and this one {size:,}."
            self._state.session_table.refusals.note(session.node, InvalidEnvelope.code, message)
            raise Rejection(Status.REJECTED_CONTEXT, InvalidEnvelope.code, message)
        session.input.spend(reading(envelope[header.body :]))
        return choice

    def do(self, entry: Entry) -> None:
        """Do what was accepted; some of it ends in a later step."""
        self._state.ledger.advance(entry, State.SENT)
        name = name_of(entry.capability)
        try:
            params = self._params(entry)
            if params.get("discard"):
                self._check_access(entry.asking_session, entry.source, name, change=True)
            data = _ACTIONS[name](self, entry, params)
        except Rejection as rejection:
            self._delivery.answer(entry, rejection.status, rejection.error, **rejection.fields)  # type: ignore[arg-type]  # no payer
        except EtherError as failure:
            error = ErrorInfo(code=failure.code, message=str(failure), retryable=failure.retryable)
            self._delivery.answer(entry, Status.REJECTED_CONTEXT, error)
        except Exception as bug:  # its deadline would end it, and a broker that starts again would meet it again
            if self._state.session_table.refusals.note(entry.asking_session.node, "internal_error", repr(bug)):
                logger.exception("a question to the bus, %s, could not be answered", name)
            if not entry.is_over:
                error = ErrorInfo(code="exception", message=f"The bus could not do it: {type(bug).__name__}.")
                self._delivery.answer(entry, Status.FAILED_EXECUTION, error)
        else:
            if data is not None:
                entry.asking_session.input.spend(1 + (len(data.packed) >> ANSWER_SHIFT))
                self._delivery.answer(entry, Status.COMPLETED, data=data)

    def late(self, entry: Entry) -> None:
        """End what has passed its deadline."""
        if not self.lease_service.late(entry):
            message = f"{name_of(entry.capability)} is still being done."
            self._delivery.rule(entry, Status.TIMEOUT, "deadline", message)

    def _check_access(self, session: Session, source: bytes, name: str, *, change: bool) -> None:
        """Raise Refusal for who may not ask this, or not change something by it."""
        access, asker = self._state.access, name_of(source)
        if name == PUBLISH:  # who may delegate nothing reaches no subscriber
            may = bool(access.grant(session.node, asker).rules)
        else:
            may = name in _ONES_OWN or access.may_administer(session.node, asker, change=change)
        if may:
            return
        verb = "change" if change else "ask"
        message = f"{asker} on node {session.node!r} may not {verb} {name!r}: the access list does not have it."
        self._state.session_table.refusals.note(session.node, AccessDenied.code, message)
        raise Rejection(Status.REJECTED_CAPABILITY, AccessDenied.code, message)

    def _params(self, entry: Entry) -> dict[str, Any]:
        """The params of a question, read within bounds; the rest of what the delegation says changes no answer."""
        envelope, start = entry.envelope, read_header(entry.envelope).body
        try:
            body = read(envelope[start:], QUESTION) if len(envelope) > start else {}
            params = body.get("params") if isinstance(body, dict) else body
            if isinstance(params, bytes):
                params = read(params, QUESTION)
        except InvalidEnvelope as error:
            self._state.session_table.refusals.note(entry.asking_session.node, error.code, error)
            raise
        if params is None:
            return {}
        if not isinstance(params, dict):
            raise InvalidEnvelope("params is a map here.")
        return params

    # -- lists, in pages -----------------------------------------------------------------------------------------

    def agents(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """Every agent: name, node, condition, load, outcomes; one only with `agent`, those of a list with `agents`.

        `busy_for`: seconds that the oldest of its tasks runs, by its node's last heartbeat. `stalled_for`: seconds without
        a sign of life of its node, when a heartbeat is missing: its process, or the way to it, stands still. Both are 0.0
        where they do not apply. Neither is a condition: a busy agent is never taken for dead, a stalled one is only when
        its node counts as lost.
        """
        now, stalled = self._state.now, STALLED * self._state.session_table.timing.heartbeat
        return page(self._rows(entry, params, lambda agent: _describe(agent, now, stalled)), params)

    def manifests(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """Every agent's manifest; those of the agents that are asked for as in `agents`.

        A page ends, too, when reading its schemas has cost 512 points.
        """
        payer = entry.asking_session.input
        most = payer.tag + _SCHEMAS
        rows = self._rows(entry, params, lambda agent: _manifest(agent, payer))
        return page(rows, params, is_over=lambda: payer.tag > most)

    def capabilities(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """What the next agents declare: `agent`, `capabilities`; with `capability`, only those that hold it or one below it."""
        wanted = text(params, "capability")
        if wanted is None:
            return page(self._rows(entry, params, _declared), params)
        below = f"{wanted}."

        def describe(agent: Registration) -> dict[str, Any] | None:
            found = _declared(agent)
            return found if any(one == wanted or one.startswith(below) for one in found["capabilities"]) else None

        return page(self._rows(entry, params, describe), params)

    def _rows(
        self, entry: Entry, params: dict[str, Any], describe: Callable[[Registration], dict[str, Any] | None]
    ) -> Iterator[tuple[Place, dict[str, Any] | None]]:  # fmt: skip
        """The agents that are asked for, by name; those that declare nothing only for who knows their names."""
        registry = self._state.registry
        wanted = params.get("agents")
        if wanted is None and (one := text(params, "agent")) is not None:
            if registry.get(one.encode()) is None:
                meant, points = hint(one, map(name_of, registry.agents_near(one.encode())))
                entry.asking_session.input.spend(points)
                raise InvalidEnvelope(f"There is no agent {one!r}.{meant}")
            wanted = [one]
        if wanted is not None and not (isinstance(wanted, list) and all(isinstance(name, str) for name in wanted)):
            raise InvalidEnvelope("params.agents has to be a list of names.")
        entry.asking_session.input.spend(len(wanted or ()) >> NAMED_SHIFT)
        after = text(params, "after")
        names: Iterable[bytes] = registry.after(None if after is None else after.encode())
        if wanted is not None:
            names = sorted(name.encode() for name in wanted if after is None or name > after)
        for name in names:
            agent = registry.get(name)
            is_listed = agent is not None and (wanted is not None or agent.manifest.declared)
            yield name_of(name), describe(agent) if agent is not None and is_listed else None

    def nodes(self, _entry: Entry, params: dict[str, Any]) -> Payload:
        """Every node: name, seconds of silence, what it says of itself, how many agents it has beside the one of its name."""
        session_table, after = self._state.session_table, text(params, "after")
        return page(((node, self._node(session_table.find(node))) for node in session_table.after(after)), params)

    def _node(self, session: Session | None) -> dict[str, Any] | None:
        if session is None:
            return None
        return {
            "node": session.node,
            "silent": round(self._state.now - session.heard, 3),
            "agents": len(session.agents) - (session.node.encode() in session.agents),
            "waiting_bytes": session.outbox_bytes,
            "observers": len(session.cursors),
            **{key: session.info[key] for key in ("host", "pid", "version", "key") if key in session.info},
        }

    def outcomes(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """What an earlier life of the delegator asked for: still open, or ended and not collected."""
        life = entry.asking_session.channel.session.to_bytes(8)
        after = params.get("after")
        if after is not None and not isinstance(after, bytes):
            raise InvalidEnvelope("params.after has to be the `next` of the page before.")
        number = int.from_bytes(after[8:]) if after and after[:8] == life else 0
        return page(((life + place.to_bytes(8), item) for place, item in self._owed(entry.source, number)), params)

    def _owed(self, source: bytes, after: int) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """What is open, by its number, then what has ended: so nothing ends unseen while pages are asked for."""
        state = self._state
        for number, asked in state.ledger.asked_by(source, after):
            item: dict[str, Any] | None = None
            if asked is not None and asked.agent is not state.bus:
                session = asked.asking_session
                if session.lost or source not in session.agents:
                    capability, left = name_of(asked.capability), asked.deadline - state.now
                    item = {"request_id": asked.request_id, "capability": capability, "ended": False, "left": left}
            yield number, item
        for number, request_id in state.ended.uncollected_of(source, after - _ENDED):
            item = {"request_id": request_id, "capability": "", "ended": True, "left": None}
            yield _ENDED + number, None if request_id is None else item

    def dead_letters(self, _entry: Entry, params: dict[str, Any]) -> Payload:
        """The newest dead letters first, below the number `after`; `reason` narrows it."""
        wanted = text(params, "reason")
        known = {reason.value: reason for reason in Reason}
        if wanted is not None and wanted not in known:
            msg = f"There is no reason {wanted!r}.{nearest(wanted, known)}"
            raise InvalidEnvelope(msg)
        below = None if params.get("after") is None else whole(params, "after", None)
        rows = (
            (number, _summary(letter) if letter is not None and wanted in (None, letter.reason) else None)
            for number, letter in self._state.dead_letters.below(below)
        )
        return page(rows, params)

    def leases(self, _entry: Entry, params: dict[str, Any]) -> Payload:
        """Every lease, the oldest first, with who waits for it; one only with `resource`."""
        return page(self.lease_service.tell(text(params, "resource"), whole(params, "after", 0)), params)

    # -- single answers ------------------------------------------------------------------------------------------

    def statistics(self, _entry: Entry, _params: dict[str, Any]) -> Payload:
        """Counts since the broker started."""
        state = self._state
        return Payload.of({
            "accepted": state.accepted,
            "open": len(state.ledger) - len(state.bus.work),
            "outcomes": _by_name(state.outcomes),
            "dead_letters": {reason.value: count for reason, count in state.dead_letters.totals.items()},
            "dead_letters_held": len(state.dead_letters),
            "messages_refused": state.session_table.refused,
            "refused": dict(state.session_table.refusals.by_reason),
            "tap_next": state.tap.next,
            "tap_first": state.tap.first,
            "nodes": len(state.session_table.sessions),
            "agents": len(state.registry),
            "clock": state.now,
        })  # fmt: skip

    def dead_letter(self, _entry: Entry, params: dict[str, Any]) -> Payload:
        """One dead letter of `number`, with 256 KiB of its envelope's bytes from `offset` on; `discard` takes it out."""
        number, offset = whole(params, "number", None), whole(params, "offset", 0)
        letters = self._state.dead_letters
        letter = letters.discard(number) if params.get("discard") else letters.get(number)
        shown = letter.envelope[offset : offset + _RANGE]
        return Payload.of({**_summary(letter), "offset": offset, "envelope": shown})

    # -- what changes something ----------------------------------------------------------------------------------

    def suggest(self, entry: Entry, params: dict[str, Any]) -> Payload:
        """Make a gap in the capabilities known, with the agent that would fill it (spec 2 §8): as an event."""
        source = name_of(entry.source)
        record = SuggestionRecord.parse({"submitted_by": source, **params})
        if record.submitted_by != source:
            raise InvalidEnvelope(f"submitted_by is {record.submitted_by!r}, and {source!r} asks: submit your own.")
        score = min(record.justification.score, record.justification.weighed)
        if score < THRESHOLD:
            raise InvalidEnvelope(f"The score is {score}; below {THRESHOLD:g} nothing is suggested (spec 2 §8.2).")
        self._state.event("suggestion", **record.document())
        return Payload.of({"suggestion_id": record.suggestion_id})


def _capability(name: str) -> Capability:
    return Capability(name=name, idempotent=True)


def _manifest(agent: Registration, payer: InputQueue[Session]) -> dict[str, Any]:
    """With the schemas that its node sent. Of one that leaves, or has not registered since a restart, none are kept."""
    payer.spend(1 + reading(agent.packed))
    manifest = {"capabilities": [], **agent.manifest.model_dump(mode="json", exclude_defaults=True, by_alias=True)}
    said = read_map(agent.packed, MANIFEST).get("capabilities", ())
    for row, declared in zip(manifest["capabilities"], said, strict=False):
        row |= {key: declared[key] for key in SCHEMAS if declared.get(key)}
    return manifest


def _declared(agent: Registration) -> dict[str, Any]:
    return {
        "agent": agent.manifest.agent,
        "capabilities": [capability.name for capability in agent.manifest.capabilities],
    }


def _describe(agent: Registration, now: float, stalled: float) -> dict[str, Any]:
    recent = sorted(agent.recent or ())
    is_up = agent.condition is Condition.UP
    silent = now - agent.session.heard
    # Until its node is back after a restart of the broker it takes work, and is not there.
    is_there = agent.is_hosted and not agent.session.lost
    return {
        "agent": agent.manifest.agent,
        "node": agent.session.node,
        "version": agent.manifest.version,
        "role": agent.manifest.role,
        "condition": (agent.condition if is_there or not agent.is_hosted else Condition.DOWN).value,
        "busy_for": agent.load.get("busy_for", 0.0) if is_up else 0.0,
        "stalled_for": round(silent, 3) if is_up and silent > stalled else 0.0,
        "capabilities": [capability.name for capability in agent.manifest.capabilities],
        "subscriptions": [subscription.topic for subscription in agent.manifest.subscriptions],
        "max_concurrency": agent.manifest.max_concurrency,
        "queued": agent.mailbox.waiting_count,
        # Of one that is not there, what its node held and said; its credit is counted anew when it is back.
        "in_flight": agent.mailbox.in_flight if is_there else 0,
        "load": agent.load if is_there else {},
        "outcomes": _by_name(agent.ended),
        "p50": recent[len(recent) // 2] if recent else None,
        "p99": recent[int(len(recent) * 0.99)] if recent else None,
    }


def _by_name(counts: dict[int, int]) -> dict[str, int]:
    return {BY_CODE[code].value: count for code, count in counts.items()}


def _summary(letter: DeadLetter) -> dict[str, Any]:
    header = read_header(letter.envelope)
    is_ours = header.capability.startswith(BUS_PREFIX)  # a question, or an event: nobody else delegates it
    return {
        "number": letter.number,
        "reason": letter.reason.value,
        "time": letter.time,
        "node": letter.node,
        "detail": letter.detail[:_DETAIL],
        "kind": Kind(header.kind).name if header.kind in set(Kind) else str(header.kind),
        "status": BY_CODE[header.status].value if header.status in BY_CODE else None,
        "request_id": to_text(header.request_id),
        "from_agent": header.source.decode(errors="replace"),
        "to_agent": header.target.decode(errors="replace"),
        "capability": header.capability.decode(errors="replace"),
        "size": len(letter.envelope),
        "can_redrive": letter.reason.can_redrive and header.kind == Kind.DELEGATION and not is_ours,
    }


_ACTIONS: Final[dict[str, Callable[[Administration, Entry, dict[str, Any]], Payload | None]]] = {
    "ether.agents": Administration.agents,
    "ether.manifests": Administration.manifests,
    "ether.capabilities": Administration.capabilities,
    "ether.nodes": Administration.nodes,
    "ether.statistics": Administration.statistics,
    "ether.outcomes": Administration.outcomes,
    "ether.dead-letters": Administration.dead_letters,
    "ether.dead-letter": Administration.dead_letter,
    "ether.leases": Administration.leases,
    "ether.lease": lambda bus, entry, params: bus.lease_service.claim(entry, params),
    "ether.release": lambda bus, entry, params: bus.lease_service.release(entry, params),
    PUBLISH: lambda bus, entry, params: bus.event_service.publish(entry, params),
    "ether.states": lambda bus, _entry, params: bus.state_service.list(params),
    "ether.state": lambda bus, entry, params: bus.state_service.tell(entry, params),
    "ether.forget-state": lambda bus, entry, params: bus.state_service.forget(entry, params),
    "ether.journal-gc": lambda bus, entry, params: bus.journal_gc.collect(entry, params),
    "ether.suggest": Administration.suggest,
}
_CHANGING: Final = frozenset({"ether.forget-state", "ether.journal-gc"})
"""What changes something whatever its params."""
_ONES_OWN: Final = frozenset({"ether.outcomes", "ether.lease", "ether.release", "ether.state", "ether.suggest"})
"""What is about the asker's own work or agents, and so is no administration."""
