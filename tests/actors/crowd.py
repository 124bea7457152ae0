"""A bus with many of everything, and a few peers that do one thing on it, whose cost is counted."""

from __future__ import annotations

from collections.abc import Callable

from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import pack, unpack
from ether_broker.journal.null import NullJournal
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import Access
from ether_broker.wire.frame import Kind
from tests.actors.peers import Bus, Peer, request_id
from tests.actors.work_counter import WorkCounter

__all__ = ["Crowd"]

_FAR = 1e6
"""Seconds: a deadline that no count reaches."""


class Crowd:
    """A supervisor with `size` of each.

    There are agents that have work (`busy`, capability `busy.work`, one open delegation of `boss` and one lease each),
    agents that have none (`idle`, `idle.work`), dead letters, delegations that ended, delegations in one mailbox (`hub`),
    monitors of agents (by `boss`), and claims in line for one lease.
    """

    def __init__(self, size: int, access: Access | None = None) -> None:
        self.size = size
        self.bus = Bus(limits=Limits(mailbox_count=2 * size, window=128), access=access)
        self.bus.state.journal = NullJournal()  # the fold that `Bus` keeps is not what is counted
        self._names = 0
        self.boss = self.bus.delegator("boss")
        self.busy = self.join("busy.work", size)
        self.idle = self.join("idle.work", size)
        self.hub = self.join("hub.work", 1)
        self.hands = self.join("hand.work", 1)
        """An agent that is given work and answers it."""
        self._fill()

    def _fill(self) -> None:
        busy, boss = self.busy, self.boss
        for name in self.names(busy):
            boss.delegate("boss", "busy.work", to=name, timeout=_FAR)
        self.settle()
        for number, held in enumerate(busy.work()):
            self.ask("ether.lease", {"resource": f"/{number}"}, of=busy, by=self.names(busy)[number], parent=held)
        for _ in range(self.size):
            boss.delegate("boss", "hub.work", timeout=_FAR)
        self.settle()
        self.hub_work = self.hub.work()
        for name in self.names(busy):
            boss.send(Kind.MONITOR, request_id=request_id(self.bus.next_id()), target=name.encode())
        for _ in range(self.size):
            boss.delegate("boss", "nobody.does.this", timeout=_FAR)  # a dead letter, and an ended one
        self.settle()
        boss.inbox.clear()
        self.first_token = min(unpack(answer.body["data"])["token"] for answer in busy.took(Kind.RESPONSE))

    # -- what happens --------------------------------------------------------------------------------------------

    def join(self, capability: str, agents: int, node: str = "") -> Peer:
        """A node with agents of one kind; their names count up over all nodes."""
        self._names += 1
        node = node or f"node-{self._names}"
        peer = Peer(self.bus, node)
        self.bus.peers.append(peer)
        peer.hello()
        self.settle()
        peer.inbox.clear()
        peer.agents = [f"{node}.{number}" for number in range(agents)]
        for name in peer.agents:
            self.register(peer, name, capability)
        self.settle()
        assert len(peer.took(Kind.REGISTERED)) == agents
        return peer

    @staticmethod
    def names(peer: Peer) -> list[str]:
        """The agents that `join` gave a peer."""
        return peer.agents

    def register(self, peer: Peer, name: str, capability: str) -> None:
        """Say REGISTER."""
        declared = Capability(name=capability, idempotent=capability.startswith("again."))
        peer.register_manifest(Manifest(agent=name, capabilities=(declared,)))

    def ask(self, capability: str, params: object, *, of: Peer | None = None, by: str = "boss", parent: int = 0) -> int:
        """Ask the bus itself."""
        return (of or self.boss).delegate(by, capability, params=params, parent=parent, timeout=_FAR)

    def give(self, capability: str = "hand.work", count: int = 1, *, to: str = "", timeout: float = _FAR) -> list[int]:
        """Delegate, uncounted."""
        numbers = [self.boss.delegate("boss", capability, to=to, timeout=timeout) for _ in range(count)]
        self.settle()
        return numbers

    def answer(self, number: int) -> None:
        """Let `hands` do what it was given, uncounted."""
        self.hands.respond(self.hands.agents[0], number)
        self.settle()
        self.hands.inbox.clear()
        self.boss.inbox.clear()

    def pass_time(self, seconds: float) -> None:
        """Move the clock on, every peer that lives showing life."""
        self.show_life()
        self.bus.now += seconds
        self.show_life()

    def show_life(self) -> None:
        """Let every peer that lives say HEARTBEAT, uncounted."""
        for peer in self.bus.peers:
            if not peer.is_dead:
                peer.send(Kind.HEARTBEAT, body={"agents": {}})
        self.settle()

    def settle(self) -> None:
        """Step until everything that waits has been taken, and what is done a share a step has been done."""
        for _ in range(3):
            self.bus.step()
            self._go_on()
            for session in self.bus.state.session_table.sessions:
                session.channel.acknowledge(session.channel.last)  # as every node does, and this one's peers do not

    def _go_on(self) -> None:
        """Step while the supervisor has more to do at once."""
        for _ in range(100):
            if self.bus.supervisor.next_wake() > self.bus.now:
                return
            self.bus.step()

    def leave(self, *peers: Peer) -> None:
        """Let nodes go again, uncounted, so that the next count finds what this one found."""
        for peer in peers:
            if not peer.is_dead:
                peer.send(Kind.BYE)
        self.settle()
        self.pass_time(0.5)  # until the supervisor has looked who is gone
        for peer in peers:
            self.bus.peers.remove(peer)
        self.boss.inbox.clear()

    def forget(self) -> None:
        """Empty the inboxes, of what an operation that failed has left too."""
        self.settle()
        for peer in self.bus.peers:
            peer.inbox.clear()

    # -- what it costs -------------------------------------------------------------------------------------------

    def cost(self, send: Callable[[], object] = lambda: None, seconds: float = 0.0) -> int:
        """Let something be said, and time pass, and count the work of the steps that it takes."""
        self.show_life()
        send()
        self.bus.now += seconds
        counter, step = WorkCounter(), self.bus.supervisor.step

        def counted(*args: object) -> None:
            with counter:
                step(*args)

        self.bus.supervisor.step = counted
        try:
            self.bus.step()
            self._go_on()
        finally:
            del self.bus.supervisor.step
        return counter.work

    def agents_told(self, peer: Peer, count: int) -> None:
        """Say HEARTBEAT with the load of so many."""
        peer.send(Kind.HEARTBEAT, body={"agents": {name: {"running": 1} for name in self.names(peer)[:count]}})

    def hold(self, peer: Peer, held: dict[str, list[int]]) -> None:
        """Say RESUME."""
        holding = {name: [[request_id(number), 1] for number in numbers] for name, numbers in held.items()}
        peer.send(Kind.RESUME, body=pack({"holding": holding}))
