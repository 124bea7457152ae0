"""A supervisor that is stepped by itself, with as many agents as are wanted: what each of them costs it."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from ether.lab.harness.role import Info, Role
from ether_actors.supervisor.supervisor import Supervisor
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack
from ether_broker.errors import InternalError
from ether_broker.transport.address import INCARNATION, Address
from ether_broker.wire.frame import Kind, join_frame, pack_envelope

__all__ = ["Crowd"]

_FRAME: Final = 64
"""Envelopes of one frame, as a link sends them."""
_CHOICES: Final = 1_000
_LEAVING: Final = 1_000
_NOW: Final = 1000.0
_FAR: Final = _NOW + 1e6
_WORK: Final = b"crowd.work"


class Crowd(Role):
    """Neither sockets nor processes: frames go into the supervisor's step, and what it sends is dropped."""

    def fill(self, agents: int) -> Info:
        """Fill a bus with `agents`: CPU seconds for each registered, each choice among them, and each that leaves.

        The first choice is taken by itself: it finds everybody with more to do than when they were last looked at.
        """
        bus = _Bus()
        boss, busy, leaving = (bus.join(name) for name in ("boss", "busy", "leaving"))
        bus.take(boss, [_register(b"asks")])
        registering = bus.take(busy, [_register(b"busy%d" % number, _WORK) for number in range(agents)])
        bus.take(leaving, [_register(b"left%d" % number, b"other.work") for number in range(_LEAVING)])
        bus.take(boss, [_delegate(_WORK, b"busy%d" % number) for number in range(agents)])
        bus.take(boss, [_delegate(b"other.work", b"left%d" % number) for number in range(_LEAVING)])
        bus.expect(agents + _LEAVING)
        first = bus.take(boss, [_delegate(_WORK)])
        choosing = bus.take(boss, [_delegate(_WORK) for _ in range(_CHOICES)])
        bus.expect(agents + _LEAVING + 1 + _CHOICES)
        going = bus.take(leaving, [pack_envelope(Kind.BYE)])
        bus.expect(agents + 1 + _CHOICES)
        return {
            "register": registering / agents, "first": first, "choose": choosing / _CHOICES, "leave": going / _LEAVING,
        }  # fmt: skip


class _Bus:
    """A supervisor on a clock that stands."""

    def __init__(self) -> None:
        self._supervisor = Supervisor()
        self._numbers = itertools.count(1)

    def join(self, name: str) -> bytes:
        """A node that has joined; its incarnation."""
        incarnation = next(self._numbers).to_bytes(INCARNATION)
        hello = pack_envelope(Kind.HELLO, request_id=incarnation, body=pack({"node": name}))
        self._step([(Address(b"r" + incarnation), join_frame([hello]))])
        return incarnation

    def take(self, incarnation: bytes, envelopes: Sequence[bytes]) -> float:
        """Let a node say something; CPU seconds until all of it was taken."""
        sender = Address(b"t" + incarnation)
        seconds = 0.0
        for first in range(0, len(envelopes), _FRAME):
            frame = join_frame(envelopes[first : first + _FRAME])
            start = time.thread_time()
            self._step([(sender, frame)])
            seconds += time.thread_time() - start
        return seconds

    def _step(self, arrivals: list[tuple[Address, bytes]]) -> None:
        supervisor, session_table = self._supervisor, self._supervisor.state.session_table
        supervisor.step(arrivals, _NOW, _NOW)
        while supervisor.next_wake() <= _NOW:
            supervisor.step((), _NOW, _NOW)
        deque(session_table.outgoing(), maxlen=0)
        for session in session_table.sessions:
            session.channel.acknowledge(session.channel.last)

    def expect(self, count: int) -> None:
        """Check that so many delegations are open: what is measured is to have happened.

        Raises:
            InternalError: there are more, or fewer.
        """
        found = len(self._supervisor.state.ledger)
        if found != count:
            raise InternalError(f"{found:,} delegations are open on the bus, and {count:,} should be.")


_ids: Final = itertools.count(1 << 64)


def _register(agent: bytes, *capabilities: bytes) -> bytes:
    declared = tuple(Capability(name=name.decode()) for name in capabilities)
    fields = Manifest(agent="any", capabilities=declared).model_dump(mode="json", exclude_defaults=True)
    del fields["agent"]
    return pack_envelope(Kind.REGISTER, request_id=next(_ids).to_bytes(16), source=agent, body=pack(fields))


def _delegate(capability: bytes, target: bytes = b"") -> bytes:
    return pack_envelope(
        Kind.DELEGATION, request_id=next(_ids).to_bytes(16), source=b"asks", target=target, capability=capability,
        deadline=_FAR, body=pack({}),
    )  # fmt: skip
