"""Brokers that crash at any commit, processes that come back or not, wires that lose frames: what was accepted has one outcome.

Holds G1 (one outcome), G2 (nothing accepted is lost), G3 (runs), G4 (deadlines) and G9 (order) over restarts of the broker.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.supervisor.membership import departures
from ether_actors.supervisor.registry.registration import Condition
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Flag, Header, Kind, pack_envelope, read_header
from tests.actors.recovery_world import LATEST, Asked, Life, World

HOMES = {"d": [], "na": ["a"], "nb": ["b"]}
"""{process: its specialists}."""
CLOCKS = st.sampled_from([0.0, -3600.0, -1.0, 1.0, 30.0, 3600.0])
"""Seconds that a machine takes it to be later."""
_SHARE = departures.POINTS_PER_STEP
CRASHES = st.lists(st.integers(0, 4), max_size=2)
"""Of brokers: so many steps after something began each of them dies."""
TIMEOUTS = st.sampled_from([0.5, 3.0, 15.0, 60.0, 60.0])


class Restarts(RuleBasedStateMachine):
    world: World

    @initialize(window=st.integers(1, 3), share=st.sampled_from([_SHARE, 4, 4]))
    def a_bus(self, window: int, share: int) -> None:
        departures.POINTS_PER_STEP = share  # with 4 each step rules on one delegation of an agent that goes
        self.world = World(synced=False, window=window)
        for name, agents in HOMES.items():
            self.world.life(name, *agents)
        self.world.settle()
        self.someone_was_lost = False
        """Whether work may have been lost."""
        self.all_lived = True

    # -- choices -------------------------------------------------------------------------------------------------

    @property
    def living(self) -> list[Life]:
        return [life for life in self.world.lives if not life.is_dead]

    def life(self, data: st.DataObject) -> Life:
        return data.draw(st.sampled_from(self.living))

    @property
    def working(self) -> list[tuple[Life, int]]:
        return [(life, number) for life in self.living for number in life.works]

    # -- work ----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), capability=st.sampled_from(["once", "twice"]), to=st.sampled_from(["", "a", "b"]),
          timeout=TIMEOUTS, count=st.integers(1, 3), flags=st.sampled_from([0, 0, int(Flag.VOLATILE)]))  # fmt: skip
    def somebody_delegates(
        self, data: st.DataObject, *, capability: str, to: str, timeout: float, count: int, flags: int
    ) -> None:  # fmt: skip
        life = self.life(data)
        for _ in range(count):
            life.ask(capability, to=to, timeout=timeout, flags=flags)

    @property
    def ended(self) -> list[Asked]:
        """What was not volatile, has an outcome and is its delegator's still."""
        asked = self.world.asked.values()
        return [one for one in asked if one.outcomes and not one.is_volatile and one.life in self.living]

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), flags=st.sampled_from([0, int(Flag.RESENT)]))
    def somebody_sends_again_what_has_ended(self, data: st.DataObject, flags: int) -> None:
        asked = data.draw(st.sampled_from(self.ended))
        if asked.life.channel.session:
            asked.life.ask_again(asked, flags)

    @rule(data=st.data(), ahead=CLOCKS)
    def a_clock_is_set(self, data: st.DataObject, ahead: float) -> None:
        """The ids of that process say so."""
        self.life(data).ahead = ahead

    @precondition(lambda self: self.working)
    @rule(data=st.data(), status=st.sampled_from([Status.ACCEPTED, Status.COMPLETED, Status.COMPLETED]))
    def somebody_answers(self, data: st.DataObject, status: Status) -> None:
        life, number = data.draw(st.sampled_from(self.working))
        life.answer(number, Status.CANCELLED if life.works[number].is_called_off else status)

    @precondition(lambda self: any(not life.works[number].is_started for life, number in self.working))
    @rule(data=st.data())
    def somebody_hands_back(self, data: st.DataObject) -> None:
        fresh = [(life, number) for life, number in self.working if not life.works[number].is_started]
        life, number = data.draw(st.sampled_from(fresh))
        life.hand_back(number)

    @precondition(lambda self: any(life.pending for life in self.living))
    @rule(data=st.data())
    def somebody_calls_off(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from([life for life in self.living if life.pending]))
        life.cancel(data.draw(st.sampled_from(list(life.pending))))

    # -- the wires and the journal -------------------------------------------------------------------------------

    @rule()
    def the_broker_steps(self) -> None:
        self.world.step()

    @rule(count=st.integers(1, 3))
    def the_journal_commits_some(self, count: int) -> None:
        self.world.journal.sync(count)

    @rule(data=st.data(), count=st.integers(1, 3))
    def somebody_hears(self, data: st.DataObject, count: int) -> None:
        self.life(data).hear(count)

    @rule(data=st.data(), rounds=st.lists(st.integers(0, 3), min_size=2, max_size=5), crashes=st.booleans(),
          flags=st.sampled_from([0, int(Flag.VOLATILE)]))  # fmt: skip
    def much_happens_while_the_journal_is_behind(
        self, data: st.DataObject, *, rounds: list[int], crashes: bool, flags: int
    ) -> None:  # fmt: skip
        """A delegation goes its way as far as the commits let it, which is where a crash hurts most."""
        self.life(data).ask(data.draw(st.sampled_from(["once", "twice"])), timeout=60.0, flags=flags)
        for commits in rounds:
            self.world.step()
            self.world.journal.sync(commits)
            for life in self.living:
                life.hear()
            for life, number in self.working[-1:]:
                is_started = life.works[number].is_started
                life.answer(number, Status.COMPLETED if is_started else Status.ACCEPTED)
        if crashes:
            self.the_broker_crashes(0.5, 5000.0, is_met=True)

    @rule()
    def all_moves(self) -> None:
        self.world.settle(3)

    @rule(data=st.data(), both=st.booleans())
    def a_connection_breaks(self, data: st.DataObject, both: bool) -> None:
        self.world.lose_frames(self.life(data), both=both)

    @rule(seconds=st.sampled_from([0.25, 1.0, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # -- brokers and processes -----------------------------------------------------------------------------------

    @rule(down=st.sampled_from([0.1, 1.0, 8.0]), clock=st.sampled_from([1.0, 5000.0, 1e6]), is_met=st.booleans())
    def the_broker_crashes(self, down: float, clock: float, is_met: bool) -> None:
        self.world.crash(down=down, clock=clock)
        if is_met:
            self.all_come_back()

    @rule(data=st.data())
    def somebody_says_hello(self, data: st.DataObject) -> None:
        self.life(data).greet()

    @rule()
    def all_come_back(self) -> None:
        for life in self.living:
            life.greet()
        self.world.settle()

    @precondition(lambda self: len(self.living) > 1)
    @rule(data=st.data())
    def a_process_dies(self, data: st.DataObject) -> None:
        life = self.life(data)
        life.is_dead = True
        self.someone_was_lost, self.all_lived = True, False

    @precondition(lambda self: len(self.living) < len(HOMES))
    @rule(data=st.data())
    def a_process_is_started_anew(self, data: st.DataObject) -> None:
        names = sorted(HOMES.keys() - {life.name for life in self.living})
        name = data.draw(st.sampled_from(names))
        self.world.life(name, *(agent for agent in HOMES[name] if agent not in self.present))

    @property
    def present(self) -> set[str]:
        """The agents of processes that live."""
        return {agent for life in self.living for agent in life.agents}

    @precondition(lambda self: any(life.agents for life in self.living))
    @rule(data=st.data(), work=st.integers(0, 4), crashes=CRASHES)
    def an_agent_leaves(self, data: st.DataObject, *, work: int, crashes: list[int]) -> None:
        """Its process stays, and may say so to a broker that is no more, or dies before all of it is ruled on."""
        life = data.draw(st.sampled_from([life for life in self.living if life.agents]))
        self.someone_was_lost = True  # what is on its way to the agent may be
        for _ in range(work):
            self.life(data).ask("once", to=life.agents[0], timeout=60.0)
        self.world.settle(3)
        life.leave(life.agents[0])
        self.brokers_die(crashes)

    @precondition(lambda self: self.all_lived and any(life.agents for life in self.living))
    @rule(data=st.data(), work=st.integers(0, 6), crashes=CRASHES)
    def an_agent_moves(self, data: st.DataObject, *, work: int, crashes: list[int]) -> None:
        """To another process, or back to its own, whatever brokers die meanwhile; what only waited goes with it."""
        life = data.draw(st.sampled_from([life for life in self.living if life.agents]))
        agent = life.agents[0]
        self.all_come_back()
        begun = any(work.is_started for work in life.works.values())
        self.someone_was_lost |= begun
        life.say(pack_envelope(Kind.UNREGISTER, source=agent.encode(), body=pack({"condition": "restarting"})))
        asked = [self.life(data).ask("once", to=agent, timeout=60.0) for _ in range(work)]
        self.world.settle(3)
        life.leave(agent, moves=True)
        self.brokers_die(crashes)
        self.all_come_back()
        to = self.life(data)
        to.hosted.add(agent)
        to.add(agent)
        self.world.settle()
        assert not {code for one in asked for _, code in one.outcomes} - {""}, (
            "G2: what only waited was lost as it moved"
        )

    @precondition(lambda self: len(self.living) > 1)
    @rule(data=st.data(), crashes=CRASHES)
    def a_node_leaves(self, data: st.DataObject, *, crashes: list[int]) -> None:
        life = self.life(data)
        self.someone_was_lost, self.all_lived = True, False
        life.bye()
        for steps in crashes:
            self.steps(steps)
            self.the_broker_crashes(0.5, 5000.0, is_met=False)
        life.is_dead = True

    def brokers_die(self, crashes: list[int]) -> None:
        """One after the other, each after so many steps."""
        for steps in crashes:
            self.steps(steps)
            self.the_broker_crashes(0.5, 5000.0, is_met=True)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.world.step()
            self.world.journal.sync()

    @precondition(
        lambda self: any(HOMES[life.name] and self.present.isdisjoint(HOMES[life.name]) for life in self.living)
    )
    @rule(data=st.data())
    def an_agent_is_back(self, data: st.DataObject) -> None:
        missing = [life for life in self.living if HOMES[life.name] and self.present.isdisjoint(HOMES[life.name])]
        life = data.draw(st.sampled_from(missing))
        life.add(*HOMES[life.name])

    @rule(data=st.data(), seconds=st.sampled_from([1.0, 4.0]))
    def a_process_is_out_of_reach(self, data: st.DataObject, seconds: float) -> None:
        life = self.life(data)
        self.someone_was_lost, self.all_lived = True, False
        self.world.lose_frames(life, both=True)
        life.is_mute = True
        self.world.pass_time(seconds)
        life.is_mute = False

    @precondition(lambda self: any(life.broker for life in self.living))
    @rule(data=st.data())
    def a_new_process_collects(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from([life for life in self.living if life.broker]))
        life.greet()
        self.world.settle()
        question = life.collect()
        self.world.settle()
        if question.outcomes == [(Status.COMPLETED, "")]:
            life.claim(question)
        del self.world.asked[question.number]

    # -- what holds ----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_open_after_its_deadline(self) -> None:
        world = self.world
        if world.has_stepped:
            for entry in world.supervisor.state.ledger.running:
                asked = world.asked.get(int.from_bytes(entry.request_id))
                assert asked is None or world.wall <= asked.until + LATEST, "G4: not timed out"

    @invariant()
    def each_was_accepted_once_and_ended_once_at_most(self) -> None:
        delegations: Counter[bytes] = Counter()
        outcomes: Counter[bytes] = Counter()
        for _, header in self._told():
            if header.kind == Kind.DELEGATION:
                delegations[header.request_id] += 1
            elif header.kind == Kind.RESPONSE and Status(header.status).is_terminal:
                outcomes[header.request_id] += 1
        assert set(delegations.values()) <= {1}, "accepted twice"
        assert set(outcomes.values()) <= {1}, "G1: two outcomes"
        assert outcomes.keys() <= delegations.keys()

    @invariant()
    def order_is_kept(self) -> None:
        for numbers in self.world.first_runs.values():
            assert numbers == sorted(numbers), "G9: overtook an older one"

    @invariant()
    def credit_is_neither_made_nor_lost(self) -> None:
        for agent in self.world.supervisor.state.registry.agents:
            assert agent.mailbox.in_flight >= 0
            if agent.condition is Condition.UP:
                held = sum(entry.holds_credit for entry in agent.work) + len(agent.ended_at_node)
                assert agent.mailbox.in_flight == held, "credit that nothing has, or that nothing gives back"

    @invariant()
    def nobody_hears_that_the_broker_was_lost(self) -> None:
        codes = {code for asked in self.world.asked.values() if not asked.is_volatile for _, code in asked.outcomes}
        assert "broker_lost" not in codes, "G2: it forgot what it had accepted"
        if not self.someone_was_lost:
            assert "node_lost" not in codes, "G3: lost, though its node came back"

    def no_living_process_was_lost(self) -> None:
        events = [unpack(raw[header.body :]) for raw, header in self._told() if header.kind == Kind.EVENT]
        if self.all_lived:
            assert "node_down" not in {event["event"] for event in events}, "lost, though it lives"

    def teardown(self) -> None:
        """With everybody back, or lost for good, all work comes to its end."""
        try:
            if hasattr(self, "world"):
                self.all_comes_to_its_end()
        finally:
            departures.POINTS_PER_STEP = _SHARE

    def all_comes_to_its_end(self) -> None:
        world = self.world
        for _ in range(2):
            for life in self.living:
                life.greet()
            world.settle()
        for _ in range(90):  # more than the longest timeout
            for life, number in self.working:
                life.answer(number, Status.CANCELLED if life.works[number].is_called_off else Status.COMPLETED)
            world.pass_time(1.0)
            if not self.open and not self.working and not world.supervisor.state.ledger.running:
                break
        world.pass_time(5.0)
        self.nobody_hears_that_the_broker_was_lost()
        self.no_living_process_was_lost()
        self.order_is_kept()
        self.each_was_accepted_once_and_ended_once_at_most()
        assert not [asked.number for asked in self.open], "G1: no outcome"
        assert world.supervisor.state.ledger.running == []
        if self.all_lived:
            session_state = {name.encode() for life in self.living for name in (life.name, *life.agents)}
            assert {agent.name for agent in world.supervisor.state.registry.agents} == session_state, (
                "an agent is kept that left"
            )
        for agent in world.supervisor.state.registry.agents:
            in_flight = agent.mailbox.in_flight if agent.condition is Condition.UP else 0
            assert (in_flight, agent.mailbox.waiting_count) == (0, 0), "credit was lost"
        for life in self.living:
            assert life.channel.retained_bytes < 2000, "something is not acknowledged"

    def _told(self) -> list[tuple[bytes, Header]]:
        return [(raw, read_header(raw)) for raw in self.world.journal.disk.envelopes]

    @property
    def open(self) -> list[Asked]:
        return [asked for asked in self.world.asked.values() if not asked.outcomes and not asked.life.is_dead]


TestRestarts = Restarts.TestCase
TestRestarts.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
