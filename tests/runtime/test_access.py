"""Access lists, as the nodes of a bus meet them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ether import Agent, Observer, Response, Runtime, Status, Task, capability
from ether.cluster import Cluster
from ether.cluster.file.file_loader import load
from ether_broker.errors import AccessDenied, InvalidSpec, Rejected
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
from tests.support import wait_until

LIST = Access(
    delegate=[DelegateRule("guest", "people.greet", ["greeter", "second"]), DelegateRule("asker", "people.secret")],
    observe="auditor",
    read="auditor",
    change="janitor",
    register=[RegisterRule("builder", ["greeter-*", "asker"])],
)


class Greeter(Agent):
    """Greets, and has a secret."""

    @capability("people.greet", idempotent=True)
    def greet(self, name: str = "you") -> str:
        return f"Hello, {name}."

    @capability("people.secret")
    def secret(self) -> str:
        return "42"


class Asker(Agent):
    """Asks others."""

    @capability("ask")
    def ask(self, task: Task, what: str) -> str:
        return task.delegate(what).result().unwrap().data


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(bind=f"ipc://{tmp_path}/b.sock", name="host", drain=0.0, access=LIST) as made:
        made.start(Greeter)
        made.start(Greeter, name="hidden")
        yield made


@pytest.fixture
def guest(bus: Runtime) -> Iterator[Runtime]:
    with Runtime.connect(bus.url, name="guest", drain=0.0) as made:
        yield made


def refusal(response: Response) -> tuple[Status, str]:
    assert response.error is not None, response
    return response.status, response.error.code


DENIED = (Status.REJECTED_CAPABILITY, "access_denied")


def test_what_a_rule_has_is_done_and_what_none_has_is_refused(guest):
    assert guest.delegate("people.greet", {}, to="greeter").result().data == "Hello, you."
    assert refusal(guest.delegate("people.secret", {}, to="greeter").result()) == DENIED
    assert refusal(guest.delegate("people.greet", {}, to="hidden").result()) == DENIED


def test_work_by_capability_goes_to_a_holder_that_is_allowed(guest):
    responses = [guest.delegate("people.greet").result() for _ in range(20)]

    assert {response.from_agent for response in responses} == {"greeter"}


def test_a_short_name_or_a_prefix_is_ruled_by_what_it_stands_for(guest):
    assert guest.delegate("greet", {}, to="greeter").result().ok
    assert refusal(guest.delegate("secret", {}, to="greeter").result()) == DENIED
    assert guest.delegate("people").result().from_agent == "greeter"


def test_a_refusal_tells_nothing_of_what_is_hidden(guest, bus):
    there = guest.delegate("people.greet", {}, to="hidden").result()
    nowhere = guest.delegate("people.greet", {}, to="hiddem").result()
    unheard = guest.delegate("people.secrets").result()

    assert there.error.message.replace("hidden", "x") == nowhere.error.message.replace("hiddem", "x")
    assert there.alternative_agent is nowhere.alternative_agent is None
    assert refusal(nowhere) == refusal(unheard) == DENIED
    assert "people.secret'" not in unheard.error.message


def test_hints_name_only_what_may_be_reached(guest):
    second = guest.delegate("people.greet", {}, to="second").result()

    assert refusal(second) == (Status.REJECTED_CAPABILITY, "unknown_agent")
    assert "hidden" not in second.error.message
    assert second.alternative_agent == "greeter"


def test_a_refusal_is_a_dead_letter_is_counted_and_told_once(guest, bus, caplog):
    for _ in range(100):
        guest.delegate("people.secret", {}, to="greeter").result()

    assert {letter.reason for letter in bus.dead_letters()} == {"forbidden"}
    assert not bus.dead_letters()[0].can_redrive
    assert bus.statistics()["refused"]["access_denied"] == 100
    assert sum("access_denied of guest" in record.getMessage() for record in caplog.records) == 7


def test_an_agent_delegates_by_its_own_rule(bus):
    with Runtime.connect(bus.url, name="builder", drain=0.0) as builder:
        builder.start(Asker)

        assert bus.delegate("ask", {"what": "people.secret"}, to="asker").result().data == "42"
        denied = bus.delegate("ask", {"what": "people.greet"}, to="asker").result()
        assert denied.status is Status.FAILED_EXECUTION
        assert "may not delegate 'people.greet'" in denied.error.message


def test_a_node_hosts_only_what_it_may(bus, guest):
    with Runtime.connect(bus.url, name="builder", drain=0.0) as builder:
        builder.start(Greeter, name="greeter-1")
        with pytest.raises(AccessDenied, match="may not host 'boss'"):
            builder.start(Greeter, name="boss")
    with pytest.raises(AccessDenied):
        guest.start(Greeter, name="greeter-2")


def test_observing_is_for_those_who_may(bus, guest):
    class Watcher(Observer):
        """Watches."""

    with pytest.raises(AccessDenied, match="may not observe"):
        guest.observe(Watcher())
    with Runtime.connect(bus.url, name="auditor", drain=0.0) as auditor:
        watcher = auditor.observe(Watcher())
        assert auditor.settle(watcher)


def test_who_may_not_know_of_an_agent_cannot_watch_it(guest):
    hidden, known = guest.monitor("hidden"), guest.monitor("greeter")

    assert hidden.wait(5.0)
    assert hidden.reason == "access_denied"
    assert not known.wait(0.05)


def test_a_node_may_watch_its_own_agents_by_whatever_rule(bus):
    with Runtime.connect(bus.url, name="builder", drain=0.0) as builder:
        builder.start(Greeter, name="greeter-1")
        own = builder.monitor("greeter-1")
        builder.stop("greeter-1")

        assert own.wait(5.0)
        assert own.reason == "stopped"


def test_asking_and_changing_have_rules_of_their_own(bus, guest):
    guest.delegate("people.secret", {}, to="greeter").result()
    with pytest.raises(Rejected, match=r"may not ask 'ether\.agents'"):
        guest.agents()
    with Runtime.connect(bus.url, name="auditor", drain=0.0) as auditor:
        (letter,) = auditor.dead_letters()
        change = auditor.delegate("ether.dead-letter", {"number": letter.number, "discard": True}).result()
        assert refusal(change) == DENIED
    with Runtime.connect(bus.url, name="janitor", drain=0.0) as janitor:
        assert janitor.delegate("ether.dead-letter", {"number": letter.number, "discard": True}).result().ok


def test_the_runtime_that_has_the_broker_may_do_everything(bus):
    assert bus.delegate("people.secret", {}, to="hidden").result().ok
    assert bus.agents()


def test_work_whose_node_is_lost_goes_only_where_its_delegator_may_send_it(bus, tmp_path):
    access = Access(delegate=[DelegateRule("guest", to=["left"])], register=[RegisterRule(["l", "r"], "*")])
    with (
        Runtime(bind=f"ipc://{tmp_path}/c.sock", name="owner", drain=0.0, access=access) as hub,
        Runtime.connect(hub.url, name="guest", drain=0.0) as far,
        Runtime.connect(hub.url, name="r", drain=0.0) as right,
    ):
        right.start(Greeter, name="right")
        with Runtime.connect(hub.url, name="l", drain=0.0) as left:
            left.start(Greeter, name="left")
            assert {far.delegate("people.greet").result().from_agent for _ in range(4)} == {"left"}
        gone = far.delegate("people.greet").result()

    assert gone.error.code in {"access_denied", "agent_down"}
    assert "right" not in gone.error.message


# -- cluster files -----------------------------------------------------------------------------------------------

FILE = """
cluster: {bind: "tcp://127.0.0.1:*", durability: memory}
access:
  delegate:
    - {who: "guest*", what: work.alone}
  observe: [ops*]
  administer: {read: "*"}
  register: [{node: "build*", agents: "b-*"}]
nodes:
  - {name: n, agents: [{start: "tests.runtime.agents:Worker"}]}
"""


def test_a_cluster_file_has_an_access_list(tmp_path):
    file = tmp_path / "bus.yaml"
    file.write_text(FILE)

    access = load(file, environ={}).access

    assert access == Access(
        delegate=[DelegateRule("guest*", "work.alone")],
        observe="ops*",
        read="*",
        register=[RegisterRule("build*", "b-*")],
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("access: {delegat: []}", "Did you mean 'delegate'"),
        ("access: {delegate: [{what: x}]}", "access.delegate.0.who is missing"),
        ("access: {administer: {reed: x}}", "Did you mean 'read'"),
        ("access: {register: [{nodes: x, agents: y}]}", "Did you mean 'node'"),
        ("access: {observe: 3}", "access.observe"),
        ('access: {observe: [""]}', "access.observe.0"),
    ],
)
def test_what_is_wrong_in_an_access_list_is_pointed_at(tmp_path, wrong, said):
    file = tmp_path / "bus.yaml"
    file.write_text(f'{wrong}\nnodes: [{{name: n, agents: [{{start: "tests.runtime.agents:Worker"}}]}}]\n')

    with pytest.raises(InvalidSpec, match=said):
        load(file, environ={})


@pytest.mark.slow
def test_a_clusters_own_nodes_host_their_agents_without_a_rule(tmp_path):
    file = tmp_path / "bus.yaml"
    file.write_text(FILE)
    with (
        Cluster(load(file, environ={}), on_output=lambda *_: None) as cluster,
        Runtime.connect(cluster.url, name="guest-1", drain=0.0) as guest,
    ):
        wait_until(lambda: [agent["agent"] for agent in guest.agents()] == ["worker"], 10.0)
        assert guest.delegate("work.alone").result(10.0).ok
        assert refusal(guest.delegate("work.once", {"folder": "x"}).result(10.0)) == DENIED
        with pytest.raises(AccessDenied):
            guest.start(Greeter)
