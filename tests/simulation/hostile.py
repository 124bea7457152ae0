"""Sessions that mean harm: they have no right but to be in, and do everything that a raw client can."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Flag, Header, Kind, pack_envelope
from tests.simulation.raw import RawPeer
from tests.simulation.workload import KEEN, ONCE

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["ATTACKS", "Hostile"]

ATTACKS: Final = (
    "cancels", "progress", "unknown", "empty", "bombs", "registrations", "monitors", "forgeries", "parents", "again",
    "questions", "garbage", "awaiting", "hoard",
)  # fmt: skip
"""What they do; `Hostile` has a method for each."""
_PAUSE: Final = 0.02
_LARGE: Final = 900_000
"""Containers of a bomb, a byte each."""
_BURST: Final = 20
"""Attacks in one moment, now and then."""
_MOST: Final = 10_000
"""Envelopes in all, about: a seed should take no more than some seconds."""


class Hostile(RawPeer):
    """One of them.

    Args:
        world: where it lives.
        name: of its node; it has two agents.
        attacks: which of `ATTACKS` it does, over and over.
        size: envelopes of one attack.
        chance: draws all that it does.
    """

    def __init__(self, world: World, name: str, attacks: tuple[str, ...], size: int, chance: Random) -> None:
        super().__init__(world, name, [f"{name}-a", f"{name}-b"], chance)
        self._attacks: list[Callable[[], None]] = [getattr(self, f"_{attack}") for attack in attacks]
        self._size = size
        self._mine: list[bytes] = []
        self._registered = 0
        self._left = _MOST
        self._bombs_left = 3

    def joined(self) -> None:
        """Begin."""
        self.after(_PAUSE, self._attack)

    def _attack(self) -> None:
        if self.is_in and self._left > 0:
            for _ in range(times := self.chance.choice((1, 1, 1, _BURST))):
                self._left -= self._size
                self.chance.choice(self._attacks)()
            self.after(times * _PAUSE, self._attack)

    # -- whom it harms -------------------------------------------------------------------------------------------

    def _request(self) -> bytes:
        """The id of some delegation, of whomever."""
        known = [plan.request_id for plan in self.world.plans[-50:] if plan.request_id]
        return self.chance.choice(known) if known and self.chance.random() < 0.8 else self.world.make_id()

    def _victim(self) -> str:
        agents = [name for member in self.world.members for name in (member.name, *member.agents)]
        return self.chance.choice(agents)

    def _header(self, request: bytes, source: str) -> Header:
        victim = self._victim().encode()
        return Header(Kind.DELEGATION, 0, 0, 0.0, request, NO_ID, 1, victim, source.encode(), ONCE.encode(), 0)

    # -- what it does --------------------------------------------------------------------------------------------

    def _cancels(self) -> None:
        source = self.chance.choice((self.name, self._victim())).encode()
        frame = [pack_envelope(Kind.CANCEL, request_id=self._request(), source=source) for _ in range(self._size)]
        self.say(*frame)

    def _progress(self) -> None:
        """Say much of what it was given, and of what it was not."""
        if not self.works:
            self.delegate(self.agents[0], timeout=3.0, capability=self.capabilities[0])
        for header in list(self.works.values())[:2]:
            for _ in range(self._size // 2):
                self.respond(header, Status.PROGRESS)

    def _unknown(self) -> None:
        for _ in range(self._size // 4):
            source = self.chance.choice((self.agents[0], self._victim()))
            self.respond(self._header(self._request(), source), self.chance.choice(list(Status)))

    def _empty(self) -> None:
        for _ in range(self._size):
            self.say()

    def _bombs(self) -> None:
        """Many containers in few bytes; the large one costs whoever unpacks it some seconds."""
        self._bombs_left -= 1
        if self._bombs_left < 0:
            return
        params = self.chance.choice((b"\x91" * 3000 + b"\xc0", b"\xdd" + _LARGE.to_bytes(4) + b"\x80" * _LARGE))
        name = self.chance.choice(("ether.agents", "ether.lease", "ether.dead-letters", "ether.suggest", ONCE))
        self.delegate(capability=name, params=params)
        self.say(pack_envelope(Kind.HEARTBEAT, body=params), pack_envelope(Kind.RESUME, body=params))

    def _registrations(self) -> None:
        for _ in range(self._size // 4):
            self._registered += 1
            self.register(f"{self.name}-{self._registered % 40}", size=self.chance.choice((0, 0, 3000)))
        if self.chance.random() < 0.3:
            reason = self.chance.choice(("", "node_lost"))
            body = pack({"condition": "gone", "reason": reason})
            name = f"{self.name}-{self.chance.randrange(40)}".encode()
            self.say(pack_envelope(Kind.UNREGISTER, source=name, body=body))
        self.register(self._victim())

    def _monitors(self) -> None:
        for _ in range(self._size // 2):
            target = self.chance.choice((self._victim(), f"node:{self.world.members[0].name}", "nobody"))
            self.say(pack_envelope(Kind.MONITOR, request_id=self.world.make_id(), target=target.encode()))

    def _forgeries(self) -> None:
        self.delegate(self._victim(), source=self._victim())
        self.say(pack_envelope(Kind.UNREGISTER, source=self._victim().encode(), body=pack({"condition": "gone"})))
        self.respond(self._header(self._request(), self._victim()), Status.COMPLETED)

    def _parents(self) -> None:
        """Any graph: itself, each other, a parent to come, one that ended, another's, or none that anybody knows."""
        first, second = self.world.make_id(), self.world.make_id()
        a, b = self.agents
        self._mine = [*self._mine[-20:], first, second]
        pairs = self.chance.choice((
            ((first, first, self.name), (second, first, a)),
            ((first, second, self.name), (second, first, a), (self.world.make_id(), first, a)),
            ((first, self._request(), a), (second, self.chance.choice(self._mine), b)),
            ((first, bytes(16), self.name), (second, first, a), (self.world.make_id(), second, b)),
        ))  # fmt: skip
        for request, parent, source in pairs:
            target = self.chance.choice((a, b, self._victim(), ""))
            capability = self.chance.choice(self.capabilities if target in self.agents else (ONCE, KEEN))
            self.delegate(target, source=source, parent=parent, request=request, timeout=2.0, capability=capability)
        for header in list(self.works.values()):
            if self.chance.random() < 0.3:
                self.respond(header, Status.COMPLETED)

    def _again(self) -> None:
        """Ask once more for what it asked before, with the word that it was lost and without it; and for others' work."""
        mine = sorted(self.asked & self.world.disk.outcomes.keys())
        if not mine or self.chance.random() < 0.3:
            self.delegate(self._victim())
            return
        for _ in range(3):
            # A used id without that word is found as such only while the broker remembers it.
            is_remembered = "forgetful" not in self.world.scenario.draws
            flags = self.chance.choice((0, int(Flag.RESENT))) if is_remembered else int(Flag.RESENT)
            self.delegate(self._victim(), request=self.chance.choice(mine), flags=flags)
        stolen, mine_before = self._request(), set(self.asked)
        if stolen in self.world.disk.outcomes:
            self.delegate(self._victim(), request=stolen, flags=int(Flag.RESENT))
            self.asked = mine_before

    def _questions(self) -> None:
        for _ in range(self._size // 8):
            name = self.chance.choice(
                ("agents", "nodes", "statistics", "capabilities", "outcomes", "leases", "nothing")
            )
            self.delegate(capability=f"ether.{name}", params=pack({}))

    def _garbage(self) -> None:
        for _ in range(self._size // 8):
            self.shout(self.chance.randbytes(self.chance.choice((0, 10, 60))))
            self.shout(b"ETHR" + self.chance.randbytes(80))

    def _awaiting(self) -> None:
        body = pack({"awaiting": [self._request() for _ in range(self._size)], "holding": {}})
        self.say(pack_envelope(Kind.RESUME, body=body))

    def _hoard(self) -> None:
        """Take what any agent may be given, and never answer."""
        for _ in range(self._size // 8):
            self.delegate("", capability=self.chance.choice((ONCE, KEEN)), timeout=0.5)
