"""One envelope of a journal: its fields, and what it says in a line."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from ether.audit.brief import brief
from ether_actors.observers.observer import Observation
from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.ids import NO_ID, to_bytes, to_text
from ether_broker.envelope.names import EVENT_PREFIX, PUBLISH
from ether_broker.envelope.payload import readable
from ether_broker.envelope.status import BY_CODE, Status
from ether_broker.errors import EtherError
from ether_broker.text import one_line
from ether_broker.wire.frame import Flag, Kind

__all__ = ["AuditEntry"]

_KINDS: Final = {kind.value: kind.name for kind in Kind}
_IN_ROW: Final = frozenset(
    {"request_id", "status", "from_agent", "to_agent", "capability", "parent", "attempt", "schema_version"}
)
_TOLD: Final = frozenset({"event", "request_id", "capability"})
_EVENTS: Final = EVENT_PREFIX.decode()
_STATE: Final = "ether.state"
_MOST: Final = 200
"""Characters of a summary."""


class AuditEntry(Observation):
    """One envelope of a journal: its number, its times, and its fields read.

    Bodies are read when they are asked for. One that cannot be read (its sender sent what is none) says so in its
    place: an audit trail shows that too.
    """

    def __init__(self, number: int, time: float, wall: float, envelope: bytes) -> None:
        super().__init__(number, time, envelope)
        self.wall = wall
        """When it passed, in seconds since 1970 in UTC."""

    @property
    def kind_name(self) -> str:
        """DELEGATION, RESPONSE or EVENT."""
        return _KINDS.get(self.header.kind, str(self.header.kind))

    @property
    def status(self) -> Status | None:
        """The status of a response; None for other kinds."""
        return BY_CODE.get(self.header.status) if self.header.kind == Kind.RESPONSE else None

    @property
    def event_name(self) -> str | None:
        """What happened, such as `agent_up`; None for other kinds."""
        return str(self.body.get("event")) if self.header.kind == Kind.EVENT else None

    @property
    def what(self) -> str:
        """The kind of a delegation, the status of a response, the name of an event."""
        if self.header.kind == Kind.RESPONSE:
            return str(self.status or self.header.status)
        return self.event_name or self.kind_name

    @property
    def about(self) -> bytes | None:
        """The request id of the delegation that it is about; None where it is about none, as agent_up."""
        if self.header.kind != Kind.EVENT:
            return self.header.request_id
        try:
            return to_bytes(self.body["request_id"])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    @property
    def about_capability(self) -> str:
        """The capability that it is about; of an event, the one in its body."""
        return self.capability or str(self.body.get("capability", "") if self.header.kind == Kind.EVENT else "")

    @property
    def agents(self) -> frozenset[str]:
        """Whom it concerns: who spoke, who was spoken to, and of an event, the agent that it is about."""
        named = {self.from_agent, self.to_agent}
        if self.header.kind == Kind.EVENT:
            named.add(str(self.body.get("agent", "")))
        return frozenset(named - {""})

    @cached_property
    def body(self) -> dict[str, Any]:
        """What the body says beyond the header, in plain values; `unreadable` where it cannot be read."""
        try:
            return self._read()
        except (EtherError, ValueError, TypeError) as error:
            # pydantic makes an error of Ctrl-C as it dumps a payload.
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None
            return {"unreadable": str(error)}

    def _read(self) -> dict[str, Any]:
        match self.header.kind:
            case Kind.DELEGATION:
                body = self.delegation.model_dump(by_alias=True, exclude_defaults=True, exclude=set(_IN_ROW))
                if self.capability == PUBLISH or self.capability.startswith(_EVENTS):
                    _open(body.get("params"), "data")
            case Kind.RESPONSE:
                body = self.response.model_dump(by_alias=True, exclude_defaults=True, exclude=set(_IN_ROW))
                if self.capability == _STATE:
                    _open(body.get("data"), "state")
            case _:
                body = dict(thaw(self.event))
                if body.get("event") == "agent_state":
                    _open(body, "state")
        return body

    @property
    def summary(self) -> str:
        """What it says, in one printable line of 200 characters at most; "" when it says nothing."""
        return one_line(self._summary(), _MOST)

    def _summary(self) -> str:
        body = self.body
        if "unreadable" in body:
            return f"unreadable: {body['unreadable']}"
        match self.header.kind:
            case Kind.DELEGATION:
                return str(body.get("objective") or "") or brief(body.get("params"))
            case Kind.RESPONSE:
                return _outcome(body)
            case _:
                return _happened(body)

    def row(self) -> dict[str, Any]:
        """The fields of `ether log -o json`; docs/cli.md explains them."""
        header = self.header
        about = self.about
        return {
            "number": self.number,
            "time": self.wall,
            "clock": self.time,
            "kind": self.kind_name,
            "status": self.status.name if self.status else None,
            "event": self.event_name,
            "request_id": None if about is None else to_text(about),
            "parent": None if header.parent == NO_ID else to_text(header.parent),
            "from_agent": self.from_agent or None,
            "to_agent": self.to_agent or None,
            "capability": self.about_capability or None,
            "attempt": header.attempt,
            "redelivered": bool(header.flags & Flag.REDELIVERED),
            "deadline": header.deadline or None,
            "size": len(self.envelope),
            "summary": self.summary,
        }

    def whole(self) -> dict[str, Any]:
        """The row, and its body."""
        return {**self.row(), "body": self.body}


def _open(said: object, name: str) -> None:
    """Put in the place of what is packed in a field what it says."""
    if isinstance(said, dict) and isinstance(packed := said.get(name), bytes):
        said[name] = readable(packed)


def _outcome(body: dict[str, Any]) -> str:
    """What a response says: why not, or in its own words, or how far it is, or its data."""
    error = body.get("error")
    if error:
        return f"{error.get('code')}: {error.get('message')}"
    if "progress" in body:
        return f"{body['progress']:.0%} {body.get('summary', '')}"
    return str(body.get("summary") or "") or brief(body.get("data"))


def _happened(body: dict[str, Any]) -> str:
    """What an event says: why, for a dead letter; of others what is short, so that no manifest stands in a line."""
    if body.get("event") == "dead_letter":
        return f"{body.get('reason')}: {body.get('detail')}"
    rest = ((name, value) for name, value in body.items() if name not in _TOLD and isinstance(value, (str, int, float)))
    return " ".join(f"{name}={value}" for name, value in rest if value != "")
