from __future__ import annotations

import pytest

from ether_actors.registry import Condition, Registration, Registry
from ether_broker.errors import DuplicateAgent
from ether_broker.mailbox import Limits
from ether_broker.manifest import Capability, Manifest
from ether_broker.router import Session


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


def chosen(made: Registry, capability: bytes) -> str | None:
    choice = made.choose(capability)
    return None if choice is None else choice.agent.manifest.agent


def test_an_agent_is_found_by_name_and_by_capability():
    made = registry(manifest("a", "x.y"), manifest("b", "x.z"))

    assert made.get(b"a").manifest.agent == "a"
    assert made.get(b"nobody") is None
    assert [holder.agent.name for holder in made.holders(b"x.y")] == [b"a"]
    assert made.capabilities() == {"x.y": ["a"], "x.z": ["b"]}
    assert len(made) == 2


def test_holders_of_the_very_capability_come_before_those_below_it_and_fallback_agents_last():
    made = registry(manifest("fallback", "*"), manifest("below", "x.y.z"), manifest("exact", "x.y"))

    assert [(holder.agent.name, holder.tier) for holder in made.holders(b"x.y")] == [
        (b"exact", 0),
        (b"below", 1),
        (b"fallback", 2),
    ]
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

    assert sorted(chosen(made, b"x.y") for _ in range(6)) == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.parametrize(
    ("condition", "takes"),
    [(Condition.UP, True), (Condition.RESTARTING, True), (Condition.DRAINING, False), (Condition.DOWN, False)],
)
def test_only_an_agent_that_is_up_or_restarts_is_chosen(condition: Condition, takes: bool):
    alone, paired = registry(manifest("a", "x.y")), registry(manifest("a", "x.y"), manifest("b", "x.y"))
    for made in (alone, paired):
        made.condition(made.get(b"a"), condition)

    assert (chosen(alone, b"x.y") is not None) is takes
    assert {chosen(paired, b"x.y") for _ in range(4)} == ({"a", "b"} if takes else {"b"})


def test_a_choice_leaves_out_whom_it_is_told_to():
    made = registry(manifest("a", "x.y"), manifest("b", "x.y"))
    a, b = made.get(b"a"), made.get(b"b")

    assert made.choose(b"x.y", (a,)).agent is b
    assert made.choose(b"x.y", (a, b)) is None


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
        made.register(manifest("a", "x.y"), session("other"))


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

    assert (made.get(b"a"), made.choose(b"x.y"), agent.session.agents) == (None, None, set())


def test_a_capability_that_is_asked_for_under_endless_names_does_not_fill_the_memory():
    made = registry(manifest("a", "x.y"))

    for number in range(25_000):
        name = b"made.up.%d" % number
        made.holders(name)
        made.resolve(made.get(b"a"), name)

    assert max(len(made._holders), len(made._resolved)) <= 10_001
