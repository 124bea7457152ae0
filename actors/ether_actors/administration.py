"""The supervisor's own capabilities, `ether.*`: what the bus tells of itself, asked for like any other work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from ether_actors.leasing import Leasing
from ether_actors.records import SUPERVISOR, Records
from ether_actors.registration import Condition, Registration
from ether_actors.trimming import Trimming
from ether_broker.codec import pack_response, read_delegation
from ether_broker.dead_letters import DeadLetter, Reason
from ether_broker.errors import AccessDenied, EtherError, InvalidEnvelope, nearest
from ether_broker.ids import to_text
from ether_broker.payload import Payload
from ether_broker.response import ErrorInfo, Response
from ether_broker.router import HEARTBEAT, Session
from ether_broker.status import Status
from ether_broker.views.suggestion import THRESHOLD, SuggestionRecord
from ether_broker.wire import Flag, Header, Kind, name_of, read_header

__all__ = ["CAPABILITIES", "Administration"]


PREFIX: Final = b"ether."
"""What the supervisor's own capabilities begin with."""
_ROOM: Final = 900_000
"""Bytes of an answer that lists; a payload has 1 MiB at most (`ether_broker.payload.MAX_PAYLOAD`)."""
_ITEM: Final = 80
"""Bytes of one entry, without its capability."""


STALLED: Final = 1.5 * HEARTBEAT
"""Seconds without a sign of life of its node after which an agent is called stalled: a heartbeat is missing."""


class Administration:
    """Answers delegations of `ether.*`, most of them at once, inside the supervisor's turn."""

    def __init__(self, records: Records, leasing: Leasing, trimming: Trimming) -> None:
        self._records = records
        self._leasing = leasing
        self._trimming = trimming

    def handle(self, session: Session, header: Header, envelope: bytes) -> None:
        """Answer one delegation."""
        records = self._records
        if self._came_before(session, header, envelope):
            return
        if records.journal.trouble is not None and header.capability != b"ether.release":
            records.refuse_unwritten(session, header)
            return
        records.passing.append(envelope)
        session.allowance.spend(1 + (len(records.registry) >> 4))
        if header.source not in session.agents:
            message = f"The connection has not registered {header.source.decode(errors='replace')!r}."
            error = ErrorInfo(code="forged_sender", message=message)
            records.answer(session, header, Status.REJECTED_CAPABILITY, error)
            return
        name = header.capability.decode(errors="replace")
        action, own = _ACTIONS.get(name), _OWN.get(name)
        if action is None and own is None:
            hint = nearest(name, (*_ACTIONS, *_OWN))
            error = ErrorInfo(code="no_holder", message=f"The bus has no such capability.{hint}")
            records.answer(session, header, Status.REJECTED_CAPABILITY, error)
            return
        try:
            params = read_delegation(header, envelope).params or {}
            if not isinstance(params, dict):
                msg = "params is a map here."
                raise InvalidEnvelope(msg)
            self._check_access(session, header, params)
            if own is not None:
                own(self, session, header, envelope, params)
                return
            assert action is not None
            data = action(self, {**params, "source": header.source} if action is Administration.outcomes else params)
        except AccessDenied as denied:
            records.router.refusals.note(session.node, denied.code, denied)
            error = ErrorInfo(code=denied.code, message=str(denied))
            records.answer(session, header, Status.REJECTED_CAPABILITY, error)
            return
        except EtherError as failure:
            error = ErrorInfo(code=failure.code, message=str(failure))
            records.answer(session, header, Status.REJECTED_CONTEXT, error)
            return
        self._reply(session, header, data)

    def _came_before(self, session: Session, header: Header, envelope: bytes) -> bool:
        records, request_id = self._records, header.request_id
        if records.ledger.get(request_id) is None and request_id not in records.claims and request_id not in records.ended:
            return False
        if not header.flags & Flag.RESENT:
            records.bury(Reason.DUPLICATE, envelope, session, "the same request came before")
        return True

    def _check_access(self, session: Session, header: Header, params: dict[str, Any]) -> None:
        """Raise AccessDenied for who may not ask this, or not change something by it."""
        if header.capability in _ONES_OWN:
            return
        source, name = (part.decode(errors="replace") for part in (header.source, header.capability))
        change = bool(params.get("discard")) or header.capability in _CHANGING
        if self._records.access.may_administer(session.node, source, change=change):
            return
        verb = "change" if change else "ask"
        raise AccessDenied(
            f"{source} on node {session.node!r} may not {verb} {name!r}: the access list does not have it."
        )

    def _reply(self, session: Session, header: Header, data: object) -> None:
        records = self._records
        response = Response(
            request_id=to_text(header.request_id), status=Status.COMPLETED, from_agent=SUPERVISOR,
            data=Payload.of(data), timestamp=records.wall,
        )  # fmt: skip
        envelope = pack_response(response, capability=header.capability, target=header.source)
        records.end(session, SUPERVISOR.encode(), b"", envelope, is_volatile=False)

    def agents(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Every agent: name, node, condition, load, outcomes; one only with `agent`.

        `busy_for`: seconds that the oldest of its tasks runs, by its node's last heartbeat. `stalled_for`: seconds without
        a sign of life of its node, when a heartbeat is missing: its process, or the way to it, stands still. Both are 0.0
        where they do not apply. Neither is a condition: a busy agent is never taken for dead, a stalled one is only when
        its node counts as lost.
        """
        wanted = params.get("agent")
        found = [
            _describe(agent, self._records.now)
            for agent in self._records.registry.agents
            if wanted in (None, agent.manifest.agent) and (wanted or agent.manifest.capabilities)
        ]
        if wanted is not None and not found:
            known = (agent.manifest.agent for agent in islice(self._records.registry.agents, 1000))
            msg = f"There is no agent {wanted!r}.{nearest(str(wanted), known)}"
            raise InvalidEnvelope(msg)
        return found

    def manifests(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Every agent's manifest; one only with `agent`."""
        self.agents(params)
        wanted = params.get("agent")
        return [
            agent.manifest.model_dump(mode="json", exclude_defaults=True, by_alias=True)
            for agent in self._records.registry.agents
            if agent.manifest.capabilities and wanted in (None, agent.manifest.agent)
        ]

    def capabilities(self, _params: dict[str, Any]) -> dict[str, list[str]]:
        """{capability: names of its holders}."""
        declared = self._records.registry.declared
        return {name_of(name): [agent.manifest.agent for agent in declared[name]] for name in sorted(declared)}

    def nodes(self, _params: dict[str, Any]) -> list[dict[str, Any]]:
        """Every node: name, seconds of silence, what it says of itself, its agents."""
        now = self._records.now
        return [
            {
                "node": session.node,
                "silent": round(now - session.heard, 3),
                "agents": len(session.agents),
                "waiting_bytes": session.outbox_bytes,
                "observers": len(session.cursors),
                **{key: session.info[key] for key in ("host", "pid", "version", "key") if key in session.info},
            }
            for session in self._records.router.sessions
        ]

    def statistics(self, _params: dict[str, Any]) -> dict[str, Any]:
        """Counts since the broker started."""
        records = self._records
        return {
            "accepted": records.accepted,
            "open": len(records.ledger),
            "outcomes": _by_name(records.outcomes),
            "dead_letters": {reason.value: count for reason, count in records.dead_letters.totals.items()},
            "dead_letters_held": len(records.dead_letters),
            "messages_refused": records.router.refused,
            "refused": dict(records.router.refusals.by_reason),
            "tap_next": records.tap.next,
            "tap_first": records.tap.first,
            "nodes": len(records.router.sessions),
            "agents": len(records.registry),
            "clock": records.now,
        }

    def outcomes(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """What an earlier life of the delegator asked for: still open, or ended and not collected, the newest of it."""
        source, now = params["source"], self._records.now
        ended = [
            {"request_id": request_id, "capability": "", "ended": True, "left": None}
            for request_id in self._records.ended.uncollected_of(source)
        ]
        running = [
            {
                "request_id": entry.request_id,
                "capability": entry.capability.decode(errors="replace"),
                "ended": False,
                "left": entry.deadline - now,
            }
            for entry in self._records.ledger.asked_by(source)
            if entry.delegator.lost
        ]
        return _newest(ended, running)

    def dead_letters(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """The newest dead letters first; `limit` (100) and `reason` narrow it."""
        wanted = params.get("reason")
        known = {reason.value: reason for reason in Reason}
        if wanted is not None and wanted not in known:
            msg = f"There is no reason {wanted!r}.{nearest(str(wanted), known)}"
            raise InvalidEnvelope(msg)
        letters = self._records.dead_letters.list(
            limit=_whole(params, "limit", 100), reason=known[wanted] if wanted else None
        )
        return [_summary(letter) for letter in letters]

    def dead_letter(self, params: dict[str, Any]) -> dict[str, Any]:
        """One dead letter of `number`, with its envelope's bytes; `discard` takes it out."""
        number = _whole(params, "number", None)
        letters = self._records.dead_letters
        letter = letters.discard(number) if params.get("discard") else letters.get(number)
        return {**_summary(letter), "envelope": letter.envelope}

    def leases(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Every lease, the oldest first, with who waits for it; one only with `resource`."""
        return self._leasing.tell(params.get("resource"))

    # -- what answers for itself ---------------------------------------------------------------------------------

    def suggest(self, session: Session, header: Header, _envelope: bytes, params: dict[str, Any]) -> None:
        """Make a gap in the capabilities known, with the agent that would fill it (spec 2 §8): as an event."""
        source = name_of(header.source)
        record = SuggestionRecord.parse({"submitted_by": source, **params})
        if record.submitted_by != source:
            raise InvalidEnvelope(f"submitted_by is {record.submitted_by!r}, and {source!r} asks: submit your own.")
        if record.justification.score < THRESHOLD:
            raise InvalidEnvelope(
                f"The score is {record.justification.score:g}; below {THRESHOLD:g} nothing is suggested (spec 2 §8.2)."
            )
        self._records.event("suggestion", **record.document())
        self._reply(session, header, {"suggestion_id": record.suggestion_id})

    def claim(self, session: Session, header: Header, envelope: bytes, params: dict[str, Any]) -> None:
        """A lease, when it is granted."""
        self._leasing.claim(session, header, envelope, params)

    def release(self, session: Session, header: Header, envelope: bytes, params: dict[str, Any]) -> None:
        """A lease's end."""
        self._leasing.release(session, header, envelope, params)

    def collect(self, session: Session, header: Header, envelope: bytes, params: dict[str, Any]) -> None:
        """The journal without what passed before `older_than`."""
        self._trimming.ask(session, header, envelope, params)


def _newest(ended: list[dict[str, Any]], running: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as one answer carries, oldest first; those that have ended make room."""
    left = _ROOM
    found: list[dict[str, Any]] = []
    for item in reversed(ended + running):
        left -= _ITEM + len(item["capability"].encode())
        if left < 0:
            break
        found.append(item)
    return found[::-1]


def _whole(params: dict[str, Any], name: str, default: int | None) -> int:
    value = params.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"params.{name} is {value!r} and has to be a whole number."
        raise InvalidEnvelope(msg)
    return value


def _describe(agent: Registration, now: float) -> dict[str, Any]:
    recent = sorted(agent.recent or ())
    is_up = agent.condition is Condition.UP
    silent = now - agent.session.heard
    return {
        "agent": agent.manifest.agent,
        "node": agent.session.node,
        "version": agent.manifest.version,
        "role": agent.manifest.role,
        "condition": agent.condition.value,
        "busy_for": agent.load.get("busy_for", 0.0) if is_up else 0.0,
        "stalled_for": round(silent, 3) if is_up and silent > STALLED else 0.0,
        "capabilities": [capability.name for capability in agent.manifest.capabilities],
        "max_concurrency": agent.manifest.max_concurrency,
        "queued": len(agent.mailbox),
        "in_flight": agent.mailbox.in_flight,
        "load": agent.load,
        "outcomes": _by_name(agent.ended),
        "p50": recent[len(recent) // 2] if recent else None,
        "p99": recent[int(len(recent) * 0.99)] if recent else None,
    }


def _by_name(counts: dict[int, int]) -> dict[str, int]:
    return {Status(status).name: count for status, count in counts.items()}


def _summary(letter: DeadLetter) -> dict[str, Any]:
    header = read_header(letter.envelope)
    return {
        "number": letter.number,
        "reason": letter.reason.value,
        "time": letter.time,
        "node": letter.node,
        "detail": letter.detail,
        "kind": Kind(header.kind).name if header.kind in set(Kind) else str(header.kind),
        "status": Status(header.status).name if header.status in set(Status) else None,
        "request_id": to_text(header.request_id),
        "from_agent": header.source.decode(errors="replace"),
        "to_agent": header.target.decode(errors="replace"),
        "capability": header.capability.decode(errors="replace"),
        "size": len(letter.envelope),
        "can_redrive": letter.reason.can_redrive and header.kind == Kind.DELEGATION,
    }


_ACTIONS: Final[dict[str, Callable[[Administration, dict[str, Any]], object]]] = {
    "ether.agents": Administration.agents,
    "ether.manifests": Administration.manifests,
    "ether.capabilities": Administration.capabilities,
    "ether.nodes": Administration.nodes,
    "ether.statistics": Administration.statistics,
    "ether.outcomes": Administration.outcomes,
    "ether.dead-letters": Administration.dead_letters,
    "ether.dead-letter": Administration.dead_letter,
    "ether.leases": Administration.leases,
}
_OWN: Final[dict[str, Callable[[Administration, Session, Header, bytes, dict[str, Any]], None]]] = {
    "ether.lease": Administration.claim,
    "ether.release": Administration.release,
    "ether.journal-gc": Administration.collect,
    "ether.suggest": Administration.suggest,
}
"""What answers for itself, at once or in a later turn."""
_CHANGING: Final = frozenset({b"ether.journal-gc"})
"""What changes something whatever its params."""
_ONES_OWN: Final = frozenset({b"ether.outcomes", b"ether.lease", b"ether.release", b"ether.suggest"})
"""What is about the asker's own work, and so is no administration."""
CAPABILITIES: Final = tuple(_ACTIONS)
