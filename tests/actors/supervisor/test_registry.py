from __future__ import annotations

from itertools import islice
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ether_actors.supervisor.registry import holders, replicas_by_load
from ether_actors.supervisor.registry.registration import Choice, Condition, Registration
from ether_actors.supervisor.registry.registry import Registry
from ether_broker.envelope.manifest.manifest import Capability, Interface, Manifest
from ether_broker.errors import DuplicateAgent, InvalidManifest
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.security.access_list import EVERYTHING, Access, DelegateRule, Grant
from ether_broker.transport.sessions.session import Session
from tests.actors.work_counter import WorkCounter


def session(name: str = "n") -> Session:
    return Session(name, name.encode().ljust(16), 0.0)


def manifest(agent: str, *capabilities: str | Capability, **fields: object) -> Manifest:
    declared = tuple(Capability(name=item) if isinstance(item, str) else item for item in capabilities)
    return Manifest(agent=agent, capabilities=declared, **fields)


def registry(*manifests: Manifest) -> Registry:
    made = Registry(Limits(window=2))
    here = session()
    for item in manifests:
        made.register(item, here)
    return made


def busy(agent: Registration, count: int) -> None:
    agent.mailbox.in_flight = count
    agent.changed()


def worked(made: Registry, capability: bytes) -> str:
    """Who was chosen, has done it, and is idle again."""
    choice = made.choose(capability)
    assert choice is not None
    choice.agent.mailbox.in_flight += 1
    choice.agent.mailbox.release()
    return choice.agent.manifest.agent


def chosen(made: Registry, capability: bytes) -> str | None:
    choice = made.choose(capability)
    return None if choice is None else choice.agent.manifest.agent


def test_an_agent_is_found_by_name_and_by_capability():
    made = registry(manifest("a", "x.y"), manifest("b", "x.z"))

    assert made.get(b"a").manifest.agent == "a"
    assert made.get(b"nobody") is None
    assert [holder.agent.name for holder in made.holders(b"x.y")] == [b"a"]
    assert set(made.capabilities_near(b"x.y")) == {b"x.y", b"x.z"}
    assert len(made) == 2


def test_holders_of_the_very_capability_come_before_those_below_it_and_fallback_agents_last():
    made = registry(manifest("fallback", "*"), manifest("below", "x.y.z"), manifest("exact", "x.y"))

    assert [(holder.agent.name, holder.tier) for holder in made.holders(b"x.y")] == [
        (b"exact", 0),
        (b"below", 1),
        (b"fallback", 2),
    ]
    assert chosen(made, b"x.y") == "exact"
    made.remove(made.get(b"exact"))
    assert chosen(made, b"x.y") == "below"
    assert chosen(made, b"unheard.of") == "fallback"


def test_the_best_holder_has_the_fewest_outstanding_then_the_least_weight_then_the_most_confidence():
    heavy = Capability(name="x.y", latency_weight=2.0)
    unsure = Capability(name="x.y", confidence=0.5)
    made = registry(manifest("heavy", heavy), manifest("unsure", unsure), manifest("best", "x.y"))
    assert {chosen(made, b"x.y") for _ in range(6)} == {"best"}

    busy(made.get(b"best"), 1)
    assert {chosen(made, b"x.y") for _ in range(6)} == {"unsure"}

    busy(made.get(b"unsure"), 1)
    assert {chosen(made, b"x.y") for _ in range(6)} == {"heavy"}

    busy(made.get(b"heavy"), 2)
    assert {chosen(made, b"x.y") for _ in range(6)} == {"best"}


def test_a_busy_holder_of_the_capability_is_better_than_an_idle_fallback_agent():
    made = registry(manifest("fallback", "*"), manifest("exact", "x.y"))
    busy(made.get(b"exact"), 2)

    assert chosen(made, b"x.y") == "exact"


def test_among_equals_the_turn_goes_round():
    made = registry(*(manifest(name, "x.y") for name in "abc"))

    assert sorted(worked(made, b"x.y") for _ in range(6)) == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize(
    ("condition", "takes"),
    [
        (Condition.UP, True), (Condition.RESTARTING, True), (Condition.MOVING, True),
        (Condition.DRAINING, False), (Condition.DOWN, False),
    ],
)  # fmt: skip
def test_only_an_agent_that_is_up_restarts_or_moves_is_chosen(condition: Condition, takes: bool):
    alone, paired = registry(manifest("a", "x.y")), registry(manifest("a", "x.y"), manifest("b", "x.y"))
    for made in (alone, paired):
        made.condition(made.get(b"a"), condition)

    assert (chosen(alone, b"x.y") is not None) is takes
    assert {worked(paired, b"x.y") for _ in range(4)} == ({"a", "b"} if condition is Condition.UP else {"b"})


def test_an_agent_that_restarts_gets_work_when_those_that_are_up_have_128_more():
    made = registry(manifest("a", "x.y"), manifest("b", "x.y"))
    made.condition(made.get(b"a"), Condition.RESTARTING)
    busy(made.get(b"b"), 127)
    assert chosen(made, b"x.y") == "b"

    busy(made.get(b"b"), 129)

    assert chosen(made, b"x.y") == "a"


def test_an_agent_that_moves_gets_work_when_nobody_else_takes_it():
    made = registry(manifest("a", "x.y"), *(manifest(name, "x.y") for name in "bcdefghijklmnopqrstuvwxyz"))
    made.condition(made.get(b"a"), Condition.MOVING)
    for name in "bcdefghijklmnopqrstuvwxy":
        made.condition(made.get(name.encode()), Condition.DOWN)
    made.condition(made.get(b"z"), Condition.RESTARTING)
    busy(made.get(b"z"), 1_000)
    assert chosen(made, b"x.y") == "z"

    made.condition(made.get(b"z"), Condition.DRAINING)

    assert chosen(made, b"x.y") == "a"


def test_an_agent_that_is_up_again_is_chosen_again():
    made = registry(manifest("a", "x.y"), manifest("b", "x.y"))
    for condition in (Condition.DRAINING, Condition.DOWN, Condition.RESTARTING, Condition.MOVING):
        made.condition(made.get(b"a"), condition)
        assert chosen(made, b"x.y") == "b"
        made.condition(made.get(b"a"), Condition.UP)
        busy(made.get(b"b"), 1)
        assert chosen(made, b"x.y") == "a"
        made.get(b"b").mailbox.release()


def test_a_choice_leaves_out_whom_it_is_told_to():
    made = registry(manifest("a", "x.y"), manifest("b", "x.y"))
    a, b = made.get(b"a"), made.get(b"b")

    assert made.choose(b"x.y", without={a}).agent is b
    assert made.choose(b"x.y", without={a, b}) is None
    assert {worked(made, b"x.y") for _ in range(2)} == {"a", "b"}


def test_an_exclusion_is_stronger_than_any_declaration():
    made = registry(manifest("a", "*", "x.y", exclusions=("x.secret",)))

    assert made.resolve(made.get(b"a"), b"x.secret.deeper") is None
    assert made.choose(b"x.secret") is None
    assert made.choose(b"anything.else") is not None


def test_a_short_form_asks_for_what_ends_with_it():
    made = registry(manifest("scout", "scout.explore_directory", "scout.analyze_file"))

    assert made.resolve(made.get(b"scout"), b"explore_directory").name == b"scout.explore_directory"


def test_a_name_that_lives_on_another_node_is_taken():
    made = registry(manifest("a", "x.y"))

    with pytest.raises(DuplicateAgent, match="lives on node 'n'"):
        made.check_free("a", session("other"))


def test_an_agent_that_was_down_comes_back_elsewhere_with_its_mailbox_and_all_its_credit():
    made = registry(manifest("a", "x.y"))
    agent = made.get(b"a")
    busy(agent, 2)
    made.condition(agent, Condition.DOWN)

    again = made.register(manifest("a", "x.z"), session("other"))

    assert again is agent
    assert (agent.condition, agent.mailbox.in_flight, agent.session.node) == (Condition.UP, 0, "other")
    assert made.choose(b"x.y") is None
    assert made.choose(b"x.z").agent is agent


def test_an_agent_that_restarts_on_its_node_keeps_the_credit_that_its_inbox_holds():
    made = registry(manifest("a", "x.y"))
    agent = made.get(b"a")
    busy(agent, 2)
    made.condition(agent, Condition.RESTARTING)

    made.register(manifest("a", "x.y"), agent.session)

    assert (agent.condition, agent.mailbox.in_flight) == (Condition.UP, 2)


def test_an_agent_that_left_is_found_no_more():
    made = registry(manifest("a", "x.y"))
    agent = made.get(b"a")
    assert made.choose(b"x.y") is not None

    made.remove(agent)

    assert (made.get(b"a"), made.choose(b"x.y"), agent.session.agents) == (None, None, {})


def test_a_capability_that_is_asked_for_under_endless_names_does_not_fill_the_memory():
    made = registry(manifest("a", "x.y", "*"))

    for number in range(25_000):
        name = b"made.up.%d" % number
        assert chosen(made, name) == "a"
        assert [holder.agent.name for holder in made.holders(name)] == [b"a"]

    agent = made.get(b"a")
    assert (len(agent.resolved) <= 64, len(agent.replicas.resolved) <= 64) == (True, True)


ACCESS: Final = Access(
    delegate=[DelegateRule("some", to=["a*", "b*"]), DelegateRule("few", to="a1"), DelegateRule("what", what="x.y*")]
)
GRANTS: Final = (EVERYTHING, *(ACCESS.grant("n", who) for who in ("some", "few", "what", "nobody")))
TAKES: Final = (Condition.UP, Condition.RESTARTING, Condition.MOVING)
NAMES: Final = ("x.y", "x.y.z", "x.y.y", "y", "*", "q.y", "x")


def takes(choice: Choice) -> bool:
    return choice.agent.condition in TAKES


def rank(choice: Choice) -> tuple[float, ...]:
    more = {Condition.RESTARTING: 128, Condition.MOVING: 1 << 40}.get(choice.agent.condition, 0)
    load = choice.agent.mailbox.outstanding + more
    return choice.tier, load, choice.capability.latency_weight, -choice.capability.confidence


class Choices(RuleBasedStateMachine):
    """Agents that come, go, change what they declare and have more or less to do; each choice is that of a look at all."""

    def __init__(self) -> None:
        super().__init__()
        self.made = Registry(Limits(window=1_000_000), ACCESS)
        self.nodes = [session("n"), session("m")]
        self.known: dict[str, Manifest] = {}

    def agents(self) -> list[Registration]:
        return list(self.made.agents)

    @initialize(few=st.sampled_from((0, 1, 3)), told=st.sampled_from((0, 8)))
    def look_at_few_one_by_one(self, few: int, told: int) -> None:
        """Orders are kept for some agents already, as they are for more than 16 otherwise."""
        holders.FEW = replicas_by_load.FEW = few
        replicas_by_load.FEW_GROUPS = told
        holders._MANY, holders._PATIENCE, holders._MOST_STALE = 2 * few, 0.5, 1 + few

    def teardown(self) -> None:
        replicas_by_load.FEW_GROUPS = 8
        replicas_by_load.FEW, holders.FEW, holders._MANY, holders._PATIENCE, holders._MOST_STALE = 16, 32, 256, 4, 32

    @rule(
        names=st.lists(st.sampled_from([f"{letter}{number}" for letter in "abc" for number in range(8)]), min_size=1),
        declared=st.lists(st.sampled_from(NAMES), max_size=3, unique=True), again=st.booleans(),
        weights=st.tuples(*[st.sampled_from((1.0, 2.0))] * 3), confidence=st.sampled_from((1.0, 0.5)),
        interface=st.sampled_from(((), ("single",), ("chained",), ("dual-phase",), ("single", "chained"))),
        exclusions=st.sampled_from(((), ("q",), ("y",))), node=st.integers(0, 1),
    )  # fmt: skip
    def register(
        self, *, names: list[str], declared: list[str], again: bool, weights: tuple[float, ...], confidence: float,
        node: int, interface: tuple[str, ...], exclusions: tuple[str, ...],
    ) -> None:  # fmt: skip
        capabilities = tuple(
            Capability(name=name, latency_weight=weight, confidence=confidence)
            for name, weight in zip(declared, weights, strict=False)
        )
        try:
            kind = Manifest(agent="any", capabilities=capabilities, interface=interface, exclusions=exclusions)
        except InvalidManifest:
            return  # it declares what it excludes
        if again and self.known:
            kind = self.known[min(self.known)]
        for name in names:
            self.made.register(kind.model_copy(update={"agent": name}), self.nodes[node])
            self.known[name] = kind

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))
        del self.known[name]
        self.made.remove(self.made.get(name.encode()))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), condition=st.sampled_from(Condition))
    def change(self, data: st.DataObject, condition: Condition) -> None:
        self.made.condition(data.draw(st.sampled_from(self.agents())), condition)

    @rule(node=st.integers(0, 1), condition=st.sampled_from((Condition.DRAINING, Condition.DOWN)))
    def all_of_a_node_take_nothing(self, node: int, condition: Condition) -> None:
        took = [agent for agent in self.nodes[node].agents.values() if agent.condition in TAKES]
        others = {agent: agent.condition for agent in self.agents() if agent not in took}

        self.made.condition_all(self.nodes[node].agents.values(), condition)

        assert all(agent.condition is condition for agent in took)
        assert {agent: agent.condition for agent in others} == others

    @precondition(lambda self: self.known)
    @rule(data=st.data(), load=st.integers(0, 3))
    def load_by_name(self, data: st.DataObject, load: int) -> None:
        busy(data.draw(st.sampled_from(self.agents())), load)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        agent = data.draw(st.sampled_from(self.agents()))
        if agent.mailbox.in_flight:
            agent.mailbox.release()

    @rule(
        data=st.data(), asked=st.sampled_from((*NAMES, "z", "other")), grant=st.sampled_from(GRANTS),
        kind=st.sampled_from((Interface.SINGLE, Interface.CHAINED)),
    )  # fmt: skip
    def choose(self, data: st.DataObject, asked: str, grant: Grant, kind: Interface) -> None:
        without = set(data.draw(st.lists(st.sampled_from(self.agents()), max_size=3))) if self.known else set()

        choice = self.made.choose(asked.encode(), kind, grant, without)

        able = [
            other
            for agent in self.agents()
            if (other := self.made.resolve(agent, asked.encode())) is not None
            and grant.permits(other.name.decode(), agent.manifest.agent)
        ]
        assert {other.agent for other in able} == {other.agent for other in self.made.holders(asked.encode(), grant)}
        ranks = [
            rank(other)
            for other in able
            if takes(other) and other.agent not in without and other.agent.manifest.takes(kind)
        ]
        assert (None if choice is None else rank(choice)) == min(ranks, default=None)
        if choice is not None and data.draw(st.booleans()):
            busy(choice.agent, choice.agent.mailbox.in_flight + 1)

    @invariant()
    def nothing_is_left_of_who_left(self) -> None:
        index = self.made.index
        known = list(index._replicas.values())
        taking, inactive = [a for one in known for a in one], [a for one in known for a in one.inactive]
        assert (len(taking), len(inactive)) == (len(set(taking)), len(set(inactive)))
        assert set(taking) == {agent for agent in self.agents() if agent.condition in TAKES}
        assert set(inactive) == {agent for agent in self.agents() if agent.condition not in TAKES}
        assert all(agent.replicas is one for one in known for agent in (*one, *one.inactive))
        held = {one for classes in index._holders.values() for one_class in classes.values() for one in one_class}
        assert held <= set(known)
        groups = [holders for classes in index._holders.values() for holders in classes.values()]
        for group in groups:
            if group._order is not None:  # who has agents that rest may stand before its place, and nobody behind it
                assert list(group._order.after(None)) == sorted(filter(None, group._keys.values()))
                for one, key in group._keys.items():
                    best = one.best()
                    assert best is None or (key is not None and key[:4] <= (best[0], *group._weights[one], best[1]))
        for one in known:
            if one._by_load is not None:
                assert one._loads == sorted(one._by_load)
                in_order = [agent for load in one._loads for agent in one._by_load[load]]
                assert set(in_order) == set(one)
                assert in_order == sorted(one, key=lambda agent: (replicas_by_load._load(agent), agent.turn))
        assert all(index._holders[name] for names in index._askable.values() for name in names)
        asleep = {name for names in index._asleep.values() for name in names}
        assert not any(any(one_class) for name in asleep for one_class in index._holders[name].values())


TestChoices = Choices.TestCase
TestChoices.settings = settings(stateful_step_count=40)


def test_who_declares_a_capability_and_its_short_form_has_one_share_of_it():
    for declared in (("b", "a.b"), ("a.b", "b")):
        made = registry(manifest("u", "b"), manifest("v", "b"), manifest("w", *declared))

        assert sorted(worked(made, b"b") for _ in range(6)) == ["u", "u", "v", "v", "w", "w"]


@pytest.mark.parametrize("count", [10, 1_000])
def test_no_holder_is_given_work_while_another_is_idle(count: int):
    made = registry(*(manifest(f"a{number:04}", "x.y") for number in range(count)))

    def give() -> int:
        agent = made.choose(b"x.y").agent
        before = agent.mailbox.outstanding
        agent.mailbox.offer(agent)
        return before

    assert {give() for _ in range(count)} == {0}
    for agent in list(made.agents)[::2]:
        agent.mailbox.release()
    assert {give() for _ in range(count // 2)} == {0}
    assert {give() for _ in range(count)} == {1}


def test_a_crowd_that_restarts_gets_nothing_while_one_is_idle():
    made = registry(*(manifest(f"a{number:03}", "x.y") for number in range(64)), manifest("up", "x.y"))
    for agent in made.agents:
        if agent.name != b"up":
            made.condition(agent, Condition.RESTARTING)

    assert chosen(made, b"x.y") == "up"


def test_of_many_capabilities_below_a_name_the_turn_goes_round():
    made = registry(*(manifest(f"a{number:04}", f"x.c{number}") for number in range(200)))

    assert {worked(made, b"x") for _ in range(800)} == {f"a{number:04}" for number in range(200)}


def test_a_choice_looks_at_few_however_much_was_given_by_name():
    made = registry(*(manifest(f"a{number:04}", "x.y") for number in range(4_000)))
    *loaded, idle = made.agents
    for agent in loaded:
        busy(agent, 1)

    with WorkCounter() as counter:
        choice = made.choose(b"x.y")

    assert (choice.agent is idle, counter.work < 1_000) == (True, True)


def test_what_a_short_form_costs_does_not_grow_with_the_agents_that_declare_it():
    def cost(count: int) -> int:
        made = registry(*(manifest(f"a{number:05}", "q.w.e.r.t.y") for number in range(count)))
        with WorkCounter() as counter:
            assert chosen(made, b"t.y") is not None
        return counter.work

    cost(10)
    assert cost(8_000) < cost(1_000) * 1.3 + 100


@pytest.mark.parametrize("asks", [False, True])
def test_an_agent_of_many_capabilities_costs_little_beside_others_that_declare_them_too(asks: bool):
    """Orders are kept of what is asked for, and where nobody asks any more they are given up."""
    made = Registry(Limits(window=1_000_000))
    for node in range(64):  # of 64 manifests, which share 200 capabilities
        made.register(manifest(f"a{node}", *(f"x.c{number}" for number in range(200))), session(f"n{node}"))
    for number in range(200 if asks else 1):
        made.choose(b"x.c%d" % number)
    agent = made.get(b"a7")
    for _ in range(400):
        busy(agent, 1)
        busy(agent, 0)

    with WorkCounter() as counter:
        busy(agent, 1)

    assert counter.work < 1_000
    assert chosen(made, b"x.c7") != "a7"


def test_a_rule_to_nobody_lets_nobody_have_it():
    access = Access(delegate=[DelegateRule("boss", to=[])])
    made, here = Registry(Limits(), access), session()
    made.register(manifest("a", "x.y"), here)
    grant = access.grant("n", "boss")

    assert grant.permits("x.y", "a") is False
    assert made.choose(b"x.y", grant=grant) is None


def test_what_is_asked_for_and_not_given_leaves_no_order_stale():
    made = registry(*(manifest(f"a{number:04}", "x.y") for number in range(2_000)))
    for _ in range(1_990):
        made.choose(b"x.y")

    with WorkCounter() as counter:
        made.choose(b"x.y")

    assert counter.work < 1_000


def test_an_agent_of_many_capabilities_that_was_away_is_chosen_for_each_again():
    names = [f"x.c{number}" for number in range(20)]
    made = registry(*(manifest(f"a{number:02}", *names, version=f"1.{number}.0") for number in range(40)))
    idle, *others = made.agents
    for agent in others:
        busy(agent, 1)
    assert {chosen(made, name.encode()) for name in names} == {"a00"}

    made.condition(idle, Condition.DOWN)
    assert "a00" not in {chosen(made, name.encode()) for name in names}
    made.condition(idle, Condition.UP)

    assert {chosen(made, name.encode()) for name in names} == {"a00"}


@pytest.mark.parametrize("count", [8, 9, 20])
def test_an_agent_that_was_lost_is_chosen_under_another_manifest_too(count: int):
    names = [f"x.c{number}" for number in range(count)]
    made = registry(*(manifest(f"o{number:02}", *names, version=f"1.{number}.0") for number in range(40)))
    nodes = session("lost"), session("back")
    for name in ("x", "y"):
        made.register(manifest(name, *names), nodes[0])
    for agent in made.agents:
        busy(agent, 0 if agent.name in {b"x", b"y"} else 1)
    assert {chosen(made, name.encode()) for name in names} <= {"x", "y"}

    made.condition_all(nodes[0].agents.values(), Condition.DOWN)
    nodes[0].lost = "silent"
    made.register(manifest("x", *names, version="2.0.0"), nodes[1])

    assert {chosen(made, name.encode()) for name in names} == {"x"}


@pytest.mark.parametrize("capabilities", [1, 9])
@pytest.mark.parametrize("count", [400, 3_200])
def test_a_choice_after_many_were_lost_puts_few_of_them_in_their_places(count: int, capabilities: int):
    names = [f"c{number}" for number in range(capabilities)]
    made = registry(manifest("lives", *names))
    lost = session("lost")
    for number in range(count):
        made.register(manifest(f"o{number}", *names, version=f"1.{number}.0"), lost)
    busy(made.get(b"lives"), 1)
    assert chosen(made, b"c0") == "o0"

    with WorkCounter() as going:
        made.condition_all(lost.agents.values(), Condition.DOWN)
    with WorkCounter() as choosing:
        assert [chosen(made, b"c0") for _ in range(3)] == ["lives"] * 3

    assert going.work < 150 * count  # whatever they declare
    assert choosing.work < 60_000 + 40 * count  # these go through all of them once, in two loops
    assert 128 + (count >> 3) <= made.looked() < 160 + (count >> 3)  # 32 are put in their places one by one


@pytest.mark.parametrize("count", [2_500, 20_000])
def test_capabilities_that_nobody_takes_do_not_stand_before_one_that_somebody_takes(count: int):
    made = registry()
    gone = session("gone")
    for number in range(count):
        made.register(manifest(f"o{number}", f"q.n{number}"), gone)
    made.register(manifest("lives", "q.live"), session())
    made.condition_all(gone.agents.values(), Condition.DRAINING)

    found = [chosen(made, b"q") for _ in range(6)]

    assert found[1:] == ["lives"] * 5
    assert found[0] == ("lives" if count < 16_384 else None)
    assert count <= made.looked() < 16 + count
    made.condition(made.get(b"lives"), Condition.DOWN)
    assert chosen(made, b"q") is None
    made.condition(made.get(b"o17"), Condition.UP)
    assert [chosen(made, b"q") for _ in range(3)] == ["o17"] * 3


@pytest.mark.parametrize("count", [60, 300, 900])  # of which no order is kept yet, and of which one is
def test_a_look_below_a_name_costs_what_is_charged_whoever_takes_no_work(count: int):
    names = [f"q.c{number}" for number in range(32)]
    made, gone = registry(), session("gone")
    for number in range(count):
        made.register(manifest(f"o{number}", *names, version=f"1.{number}.0"), gone)
    made.register(manifest("lives", *names, interface=("chained",)), session())
    made.condition_all(gone.agents.values(), Condition.DRAINING)

    def look() -> tuple[int, int]:
        with WorkCounter() as counter:
            assert chosen(made, b"q") is None
        return counter.work, made.looked()

    looks = [look() for _ in range(12)]

    assert all(work < 8_000 + 130 * charged for work, charged in looks)
    assert looks[-1][0] < 16_000  # however many there were


@pytest.mark.parametrize("count", [8, 40, 300])
def test_a_capability_is_not_set_aside_when_those_who_stood_first_take_no_work(count: int):
    made = registry(*(manifest(f"a{number}", "q.c", version=f"1.{number}.0") for number in range(count)))

    for left in range(count, 0, -1):
        first = made.choose(b"q")
        assert first is not None, f"{left} take work"
        made.condition(first.agent, Condition.DRAINING)

    assert made.choose(b"q") is None


@pytest.mark.parametrize("count", [100, 800])
def test_a_few_of_all_whom_a_choice_could_find_cost_what_they_are(count: int):
    made = registry(*(manifest(f"a{number}", "x.y") for number in range(count)))

    with WorkCounter() as counter:
        few = list(islice(made.holders(b"x.y"), 8))

    assert len(few) == 8
    assert counter.work < 4_500


def test_agents_that_had_work_before_a_restart_of_the_broker_are_busy_after_it():
    made = registry(*(manifest(f"a{number:02}", "x.y") for number in range(40)), manifest("idle", "x.y"))
    for agent in made.agents:
        if agent.name != b"idle":
            agent.mailbox.take_credit()

    assert chosen(made, b"x.y") == "idle"


def test_a_session_has_the_rules_of_its_agents_while_it_has_the_agents():
    access = Access(delegate=[DelegateRule("a*", to=["x"]), DelegateRule("*b", to=["y"])])
    registry, here = Registry(Limits(), access), session()
    first, second = (registry.register(Manifest(agent=name), here) for name in ("ab", "a"))
    registry.register(Manifest(agent="ab"), here)

    assert sorted(here.rules.values()) == [1, 2]
    registry.remove(second)
    assert sorted(here.rules.values()) == [1, 1]
    registry.remove(first)
    assert (here.rules, here.newcomers) == ({}, set())
