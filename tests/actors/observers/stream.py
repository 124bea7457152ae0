"""A scripted stream of messages, as the tap would number and time them."""

from __future__ import annotations

from typing import Any

from ether_actors.observers.observer import Observation, Observer
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import foreign_id, to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.tap import ReadBatch
from ether_broker.wire.codec import pack_delegation, pack_response
from ether_broker.wire.frame import Kind, pack_envelope

START = 1_000_000.0

__all__ = ["START", "Stream", "request_id"]


def request_id(name: str) -> str:
    return to_text(foreign_id(name))


class Stream:
    """Feeds an observer; time stands still but for `passes`."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.now = START
        self.number = 1

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def give(self, envelope: bytes) -> Observation:
        """One message, in a batch of its own."""
        self.observer.observe(ReadBatch(self.number, self.number + 1, [(self.number, self.now, envelope)]))
        self.number += 1
        return Observation(self.number - 1, self.now, envelope)

    def loses(self, count: int) -> None:
        """The next messages are gone before the observer gets to them."""
        self.number += count

    def delegation(
        self, name: str, capability: str = "x.do", to: str | None = "ann", timeout: float = 60.0, **fields: Any
    ) -> Observation:
        wanted = {
            "request_id": request_id(name), "from_agent": "user", "to_agent": to, "capability": capability, **fields,
        }  # fmt: skip
        return self.give(pack_delegation(Delegation.parse(wanted), deadline=self.now + timeout))

    def response(
        self, name: str, status: Status = Status.COMPLETED, by: str = "ann", capability: str = "x.do", **fields: Any
    ) -> Observation:
        told = {"request_id": request_id(name), "status": status, "from_agent": by, **fields}
        return self.give(pack_response(Response.parse(told), capability=capability.encode(), target=b"user"))

    def ruling(self, name: str, status: Status, capability: str = "x.do", **fields: Any) -> Observation:
        """A response of the supervisor's own."""
        return self.response(name, status, by="ether", capability=capability, **fields)

    def work(self, name: str, status: Status = Status.COMPLETED, *, takes: float = 0.0, **fields: Any) -> None:
        """A delegation and its outcome; the handler takes all of the time."""
        if takes:
            fields = {"elapsed": takes, **fields}
        route = {key: fields[key] for key in ("capability",) if key in fields}
        self.delegation(name, to=fields.get("by", "ann"), **route)
        self.passes(takes)
        self.response(name, status, **fields)

    def event(self, name: str, **fields: Any) -> Observation:
        body = pack({"event": name, **fields})
        return self.give(pack_envelope(Kind.EVENT, request_id=foreign_id(name), source=b"ether", body=body))
