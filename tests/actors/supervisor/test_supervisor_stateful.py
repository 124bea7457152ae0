"""Nodes, agents and delegations at random, against books kept of the envelopes alone (`supervisor_books`).

Holds G1 (one outcome), G3 (runs), G4 (deadlines), G6 (identity), G7 (complete tap), G8 (bounds and credit), G9 (order)
and G10 (least capability) after every step.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import DRAINS, Flag, Kind
from tests.actors.peers import Peer
from tests.actors.supervisor_books import IDEMPOTENT, Asked, Books, Given

AGENTS = ["ann", "bob", "cat", "dan"]
WANTED = st.sampled_from(["twice", *IDEMPOTENT, "wide", "near", "unheard.of"])
TIMEOUTS = st.sampled_from([0.05, 0.4, 1.0, 3.0, 9.0, 20.0, 20.0])
OUTCOMES = [status for status in Status if status.is_terminal and status is not Status.TIMEOUT]


@st.composite
def manifests(draw: st.DrawFn, agent: str) -> Manifest:
    names = draw(st.lists(st.sampled_from(list(IDEMPOTENT)), unique=True, min_size=1, max_size=4))
    exclusions = draw(st.sampled_from([(), (), ("once",), ("wide",)]))
    declared = [name for name in names if not name.startswith(exclusions or ("-",))]
    return Manifest(
        agent=agent,
        capabilities=tuple(Capability(name=name, idempotent=IDEMPOTENT[name]) for name in declared),
        exclusions=exclusions,
        max_concurrency=draw(st.integers(1, 3)),
    )


class Supervision(RuleBasedStateMachine):
    books: Books
    books_type: type[Books] = Books

    @initialize(count=st.integers(0, 3), window=st.integers(1, 3), size=st.sampled_from([250, 1 << 20]), data=st.data())
    def a_bus_with_two_nodes(self, count: int, window: int, size: int, data: st.DataObject) -> None:
        self.books = self.books_type(Limits(mailbox_count=count, window=window, mailbox_bytes=size))
        self.bus = self.books.bus
        for names in (AGENTS[:2], AGENTS[2:]):
            self.a_node_comes(data, names)

    # -- choices -------------------------------------------------------------------------------------------------

    def node(self, data: st.DataObject) -> Peer:
        return data.draw(st.sampled_from([peer for peer in self.bus.peers if not peer.is_dead]))

    def agent(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.books.homes)))

    def work(self, data: st.DataObject) -> Given:
        return data.draw(st.sampled_from(self.books.given))

    def handlers(self) -> list[Given]:
        """Work of agents that are still where it was given."""
        return [given for given in self.books.given if self.books.homes.get(given.agent) is given.peer]

    def free_names(self) -> list[str]:
        """Names that a node may register: nobody has them, or who had them is known to be down."""
        registry = self.bus.state.registry
        known = {name: registry.get(name.encode()) for name in AGENTS}
        return [name for name, agent in known.items() if agent is None or agent.condition is Condition.DOWN]

    @property
    def has_agents(self) -> bool:
        return bool(self.books.homes)

    @property
    def has_work(self) -> bool:
        return bool(self.books.given)

    # -- nodes and agents ----------------------------------------------------------------------------------------

    @precondition(lambda self: len([peer for peer in self.bus.peers if not peer.is_dead]) < 4)
    @rule(data=st.data())
    def a_node_comes(self, data: st.DataObject, names: list[str] | None = None) -> None:
        peer = self.bus.node(f"n{len(self.bus.peers)}")
        for name in self.free_names() if names is None else names:
            self.books.host(peer, data.draw(manifests(name)))
        self.books.step()

    @precondition(lambda self: self.has_agents)
    @rule(data=st.data())
    def an_agent_comes_back_changed(self, data: st.DataObject) -> None:
        name = self.agent(data)
        self.books.host(self.books.homes[name], data.draw(manifests(name)))
        self.books.step()

    @precondition(lambda self: self.has_agents)
    @rule(data=st.data(), drains=st.booleans())
    def an_agent_restarts_or_drains(self, data: st.DataObject, drains: bool) -> None:
        name = self.agent(data)
        if drains:
            self.books.homes[name].send(Kind.UNREGISTER, source=name.encode(), flags=DRAINS)
        else:
            self.books.homes[name].send(Kind.UNREGISTER, source=name.encode(), body={"condition": "restarting"})
        self.books.step()

    @precondition(lambda self: self.has_agents)
    @rule(data=st.data())
    def an_agent_is_up_again(self, data: st.DataObject) -> None:
        name = self.agent(data)
        self.books.host(self.books.homes[name], self.books.manifests[name])
        self.books.step()

    @precondition(lambda self: len(self.books.homes) > 1)
    @rule(data=st.data())
    def an_agent_leaves(self, data: st.DataObject) -> None:
        self.books.leave(self.agent(data))
        self.books.step()

    @precondition(lambda self: len({peer.name for peer in self.books.homes.values()}) > 1)
    @rule(data=st.data(), how=st.sampled_from(["politely", "silently", "noticed", "noticed"]))
    def a_node_goes(self, data: st.DataObject, how: str) -> None:
        peer = self.work(data).peer if self.handlers() else self.node(data)
        if how == "politely":
            self.books.bye(peer)
        else:
            self.books.die(peer)
        self.books.pass_time(4.0 if how == "noticed" else 0.0)

    # -- work ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.has_agents)
    @rule(data=st.data(), count=st.integers(1, 4), capability=WANTED, timeout=TIMEOUTS, named=st.booleans())
    def somebody_asks(self, data: st.DataObject, count: int, capability: str, timeout: float, named: bool) -> None:
        source = self.agent(data)
        to = data.draw(st.sampled_from([*AGENTS, self.agent(data), "nobody"])) if named else ""
        for _ in range(count):
            self.books.ask(source, capability, to=to, timeout=timeout)
        self.books.step()

    @precondition(lambda self: self.handlers())
    @rule(data=st.data(), capability=WANTED, timeout=TIMEOUTS, named=st.booleans())
    def a_handler_asks(self, data: st.DataObject, capability: str, timeout: float, named: bool) -> None:
        for given in data.draw(st.lists(st.sampled_from(self.handlers()), min_size=1, max_size=3)):
            to = data.draw(st.sampled_from(AGENTS)) if named else ""
            self.books.ask(given.agent, capability, to=to, timeout=timeout, parent=given)
            self.books.step()

    @precondition(lambda self: self.has_work)
    @rule(data=st.data(), status=st.sampled_from([Status.ACCEPTED, Status.PROGRESS]))
    def work_goes_on(self, data: st.DataObject, status: Status) -> None:
        self.books.answer(self.work(data), status)
        self.books.step()

    @precondition(lambda self: self.has_work)
    @rule(data=st.data(), status=st.sampled_from(OUTCOMES), count=st.integers(1, 3))
    def work_ends(self, data: st.DataObject, status: Status, count: int) -> None:
        for _ in range(min(count, len(self.books.given))):
            self.books.answer(self.work(data), status)
        self.books.step()

    @precondition(lambda self: self.has_work)
    @rule(data=st.data())
    def work_is_handed_back(self, data: st.DataObject) -> None:
        self.books.hand_back(self.work(data))
        self.books.step()

    @precondition(lambda self: self.has_agents and self.books.open)
    @rule(data=st.data())
    def a_delegator_cancels(self, data: st.DataObject) -> None:
        asked: Asked = data.draw(st.sampled_from(self.books.open))
        if self.books.homes.get(asked.source) is asked.peer:
            asked.peer.cancel(asked.source, asked.number)
        self.books.step()

    @rule(seconds=st.sampled_from([0.01, 0.2, 0.7, 1.5, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.books.pass_time(seconds)

    # -- what changes nothing ------------------------------------------------------------------------------------

    @precondition(lambda self: self.has_agents and self.books.asked)
    @rule(data=st.data())
    def something_comes_that_must_change_nothing(self, data: st.DataObject) -> None:
        asked: Asked = data.draw(st.sampled_from(list(self.books.asked.values())))
        tries = [self.foreign_answer, self.foreign_cancel, self.same_request_again, self.forged_request]
        data.draw(st.sampled_from([self.illegal_status, *tries] if self.has_work else tries))(data, asked)
        self.books.step()

    def illegal_status(self, data: st.DataObject, _asked: Asked) -> None:
        self.books.answer(self.work(data), data.draw(st.sampled_from([Status.TIMEOUT, 0, 77])))

    def foreign_answer(self, data: st.DataObject, asked: Asked) -> None:
        speaker, peer = self.agent(data), self.node(data)
        if any(given.asked is asked and given.agent == speaker and given.peer is peer for given in self.books.given):
            return
        flags = data.draw(st.sampled_from([0, Flag.HANDED_BACK]))
        peer.respond(speaker, asked.number, data.draw(st.sampled_from(Status)), flags=flags)

    def foreign_cancel(self, data: st.DataObject, asked: Asked) -> None:
        peer = self.node(data)
        if peer is not asked.peer:
            peer.cancel(asked.source, asked.number)

    def same_request_again(self, data: st.DataObject, asked: Asked) -> None:
        if asked.is_accepted:  # what was refused may be asked again
            peer = self.node(data)
            asked.again.append(peer)
            if self.books.homes.get(asked.source) is peer:
                asked.homes.add(peer)
            peer.delegate(asked.source, asked.capability, number=asked.number)

    def forged_request(self, data: st.DataObject, _asked: Asked) -> None:
        agent, peer = self.agent(data), self.node(data)
        if self.books.homes[agent] is not peer:
            self.books.ask(agent, data.draw(WANTED), to="", timeout=5.0, by=peer)

    # -- the end -------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "books"):
            return
        for given in list(self.books.given):
            self.books.answer(given, Status.CANCELLED)
        self.books.step()
        self.books.pass_time(21.0)
        assert not self.books.open


TestSupervision = Supervision.TestCase
TestSupervision.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
