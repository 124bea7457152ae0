from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.payload import pack, unpack
from ether_broker.errors import InvalidSpec
from ether_broker.security import access_list as module
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule

LIST = Access(
    delegate=[
        DelegateRule("laptop*", ["text.*", "people.greet"], "writer*"),
        DelegateRule(["chief", "boss"], to="*"),
    ],
    observe="ops*",
    read=["ops*", "chief"],
    change="ops-admin",
    register=[RegisterRule("builders*", ["build-*", "test"])],
    owners=["host"],
)
NAMES = st.sampled_from(["laptop", "laptop/1", "chief", "writer", "ops", "ops-admin", "builders", "host", "x"])
CAPABILITIES = st.sampled_from(["text.write", "people.greet", "people", "text", "*"])


@pytest.mark.parametrize(
    ("node", "source", "capability", "target", "allowed"),
    [
        ("laptop", "laptop", "text.write", "writer", True),
        ("laptop/7", "agent", "text.write", "writer-2", True),  # all agents of a node that is meant
        ("other", "laptop/x", "people.greet", "writer", True),  # an agent that is meant, wherever it lives
        ("laptop", "laptop", "text.write", "editor", False),
        ("laptop", "laptop", "code.write", "writer", False),
        ("laptop", "laptop", "text", "writer", False),
        ("other", "other", "text.write", "writer", False),
        ("other", "chief", "anything.at.all", "anybody", True),
        ("Laptop", "Laptop", "text.write", "writer", False),
        ("host", "whoever", "anything", "anybody", True),
    ],
)
def test_a_delegation_needs_a_rule_that_has_who_what_and_to(node, source, capability, target, allowed):
    for _ in range(2):  # decided, and remembered
        assert LIST.grant(node, source).permits(capability, target) is allowed


@given(NAMES, NAMES, CAPABILITIES, NAMES)
def test_an_empty_list_allows_nothing_but_a_nodes_own_agent(node, source, capability, target):
    nothing = Access()

    assert not nothing.grant(node, source).permits(capability, target)
    assert not nothing.may_observe(node)
    assert not nothing.may_administer(node, source)
    assert nothing.may_register(node, target) is (node == target)


@given(NAMES, NAMES, CAPABILITIES, NAMES)
def test_no_list_allows_everything(node, source, capability, target):
    everything = Access.open()

    assert everything.grant(node, source).permits(capability, target)
    assert everything.may_observe(node)
    assert everything.may_administer(node, source, change=True)
    assert everything.may_register(node, target)


@given(NAMES, NAMES, CAPABILITIES, NAMES)
def test_what_may_be_delegated_may_be_known_of(node, source, capability, target):
    if LIST.grant(node, source).permits(capability, target):
        assert LIST.grant(node, source).knows_capability(capability)
        assert LIST.grant(node, source).knows_agent(target)


@given(NAMES, NAMES, CAPABILITIES, NAMES)
def test_another_process_decides_the_same(node, source, capability, target):
    again = Access.of(unpack(pack(LIST.as_dict())))

    assert again == LIST
    assert again.grant(node, source).permits(capability, target) is LIST.grant(node, source).permits(capability, target)
    assert again.may_register(node, target) is LIST.may_register(node, target)


def test_an_open_list_stays_open_in_another_process():
    assert Access.of(Access.open().as_dict()).is_open
    assert Access.open().extended(owners=["x"]).is_open
    assert not Access.of(Access().as_dict()).is_open


def test_observing_and_administering_have_lists_of_their_own():
    assert (LIST.may_observe("ops-1"), LIST.may_observe("chief")) == (True, False)
    assert (LIST.may_administer("n", "chief"), LIST.may_administer("n", "chief", change=True)) == (True, False)
    assert LIST.may_administer("ops-admin", "any", change=True)


def test_who_may_change_may_ask():
    assert Access(change="ops").may_administer("ops", "ops")


def test_a_node_hosts_what_a_rule_names_and_its_own_agent():
    assert [LIST.may_register("builders-1", agent) for agent in ("build-x", "test", "tester", "builders-1")] == [
        True, True, False, True,
    ]  # fmt: skip
    assert LIST.may_register("host", "anything")


def test_more_rules_can_be_added_and_the_list_itself_stays_as_it_was():
    more = LIST.extended(register=[RegisterRule("n", "a")], owners=["me"])

    assert more.may_register("n", "a")
    assert more.grant("me", "me").permits("x", "y")
    assert not LIST.may_register("n", "a")


def test_decisions_are_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CACHED", 10)
    access = Access(delegate=[DelegateRule("a")])

    for number in range(100):
        assert not access.grant("n", f"b{number}").permits("c", "t")

    for number in range(100):
        assert access.grant("n", "a").permits("c", f"t{number}")

    assert max(len(access._grants), len(access._grants_of_rules), len(access.grant("n", "a")._decided)) <= 10


@pytest.mark.parametrize("patterns", [3, [3], [""], "", {"a": 1}, None])
def test_what_is_no_pattern_is_refused_with_its_place(patterns):
    with pytest.raises(InvalidSpec, match="who"):
        DelegateRule(patterns)
    with pytest.raises(InvalidSpec, match="observe"):
        Access(observe=patterns)
