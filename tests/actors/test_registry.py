from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_actors.registration import Choice, Condition, Registration
from ether_actors.registry import Registry
from ether_broker.errors import DuplicateAgent
from ether_broker.mailbox import Limits
from ether_broker.manifest import Capability, Interface, Manifest
from ether_broker.router import Session
from ether_broker.security.access import EVERYTHING, DelegateRule, Grant
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
    assert {name: [agent.name for agent in agents] for name, agents in made.declared.items()} == {
        b"x.y": [b"a"],
        b"x.z": [b"b"],
    }
    assert len(made) == 2


def test_holders_of_the_very_capability_come_before_those_below_it_and_fallback_agents_last():
    made = registry(manifest("fallback", "*"), manifest("below", "x.y.z"), manifest("exact", "x.y"))

    assert [(holder.agent.name, holder.tier) for holder in made.holders(b"x.y")] == [
        (b"below", 1),
        (b"exact", 0),
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
    [(Condition.UP, True), (Condition.RESTARTING, True), (Condition.DRAINING, False), (Condition.DOWN, False)],
)
def test_only_an_agent_that_is_up_or_restarts_is_chosen(condition: Condition, takes: bool):
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


def test_an_agent_that_is_up_again_is_chosen_again():
    made = registry(manifest("a", "x.y"), manifest("b", "x.y"))
    for condition in (Condition.DRAINING, Condition.DOWN, Condition.RESTARTING):
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
    made = registry(manifest("a", "x.y"))

    for number in range(25_000):
        name = b"made.up.%d" % number
        made.holders(name)
        made.resolve(made.get(b"a"), name)

    assert len(made.get(b"a").resolved) <= 64
    assert len(made._groups) == 1


def test_groups_for_short_forms_and_grants_are_bounded():
    made = registry(*(manifest(f"a{number}", f"x.c{number}") for number in range(300)))
    grants = [Grant([DelegateRule("*", to=f"a{number}")]) for number in range(3)]

    for number in range(300):
        for grant in (EVERYTHING, *grants):
            made.choose(b"c%d" % number, grant)

    assert len(made._made) <= 256
    assert sum(len(agent.groups) for agent in made.agents) <= 300 + 256
    assert made.choose(b"c2", grants[2]).agent.name == b"a2"
    assert made.choose(b"c2", grants[1]) is None


@given(st.data())
def test_the_one_chosen_is_the_one_that_a_look_at_all_of_them_finds(data: st.DataObject):
    names = "abcde"
    made = registry(*(manifest(name, "x.y" if name < "d" else "x.y.z") for name in names))
    grants = [EVERYTHING, Grant([DelegateRule("*", to=["a", "b", "d"])])]
    for _ in range(data.draw(st.integers(1, 30))):
        agent = made.get(data.draw(st.sampled_from(names)).encode())
        change = data.draw(st.integers(0, 4))
        if change == 0:
            made.condition(agent, data.draw(st.sampled_from(list(Condition))))
        elif change == 1 and agent.mailbox.in_flight:
            agent.mailbox.release()
        elif change == 2:
            made.register(agent.manifest, agent.session)
        else:
            busy(agent, agent.mailbox.in_flight + 1)
        grant = data.draw(st.sampled_from(grants))
        without = {made.get(name.encode()) for name in data.draw(st.sets(st.sampled_from(names)))}

        choice = made.choose(b"x.y", grant, without)

        ranks = [rank(other) for other in made.holders(b"x.y", grant) if other.agent not in without and takes(other)]
        assert (None if choice is None else rank(choice)) == min(ranks, default=None)


def takes(choice: Choice) -> bool:
    return choice.agent.condition in (Condition.UP, Condition.RESTARTING)


def rank(choice: Choice) -> tuple[int, int]:
    restarting = 128 * (choice.agent.condition is Condition.RESTARTING)
    return choice.tier, choice.agent.mailbox.outstanding + restarting


@given(st.data())
def test_whatever_agents_declare_anew_the_best_of_those_that_declare_it_now_is_chosen(data: st.DataObject):
    names = ("b", "a.b", "z.a.b", "c", "*")
    declarations = st.lists(st.sampled_from(names), max_size=3, unique=True)
    interfaces = st.sampled_from(((), ("single",), ("chained",), ("dual-phase",), ("single", "chained")))
    made, here = Registry(Limits(window=2)), session()
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from("uvwx"))
        known = made.get(name.encode())
        if known is not None and data.draw(st.integers(0, 5)) == 0:
            made.remove(known)
            continue
        agent = made.register(manifest(name, *data.draw(declarations), interface=data.draw(interfaces)), here)
        busy(agent, data.draw(st.integers(0, 3)))
        agent.load_fell()
        asked = data.draw(st.sampled_from((b"b", b"a.b", b"c")))
        kind = data.draw(st.sampled_from((None, Interface.SINGLE, Interface.CHAINED)))

        choice = made.choose(asked, kind=kind)

        able = filter(None, (made.resolve(agent, asked) for agent in made.agents))
        ranks = [rank(other) for other in able if kind is None or other.agent.takes(kind)]
        assert (None if choice is None else rank(choice)) == min(ranks, default=None)
        assert choice is None or choice.agent.manifest.resolve(asked.decode()) == choice.capability


@pytest.mark.parametrize("declared", [("b", "a.b"), ("a.b", "b")])
def test_who_declares_a_capability_and_its_short_form_has_one_share_of_it(declared: tuple[str, str]):
    made = registry(manifest("u", "b"), manifest("v", "b"), manifest("w", *declared))

    assert sorted(worked(made, b"b") for _ in range(6)) == ["u", "u", "v", "v", "w", "w"]


def test_after_much_work_by_name_a_choice_looks_at_few_and_soon_finds_the_best_of_all():
    made = registry(*(manifest(f"a{number:04}", "x.y") for number in range(4_000)))
    *loaded, idle = made.agents
    for agent in loaded:
        busy(agent, 1)

    with WorkCounter() as counter:
        first = made.choose(b"x.y")
    assert counter.work < 5_000
    assert first is not None
    assert first.agent.mailbox.outstanding == 1

    choices = itertools.takewhile(lambda choice: choice.agent is not idle, iter(partial(made.choose, b"x.y"), None))
    assert sum(1 for _ in choices) < 4_000 / 8
    assert made.choose(b"x.y").agent is idle
