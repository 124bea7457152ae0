from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ether import InvalidEndpoint, InvalidSpec, UsageError
from ether.cluster import Cluster
from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NodeSpec, ObserverSpec, name_agents
from ether_actors.restarts.supervisor_spec import Restart
from tests.runtime.agents import Worker

START = "tests.runtime.agents:Worker"


def names(*nodes: NodeSpec, taken: tuple[str, ...] = ()) -> list[list[str]]:
    return [[name for named in agents for name in named.names] for agents in name_agents(nodes, taken)]


def test_a_class_stands_for_the_module_that_it_can_be_imported_from():
    assert AgentSpec(Worker).start == START  # type: ignore[arg-type]
    assert NodeSpec("n1", (Worker, START)).agents == (AgentSpec(START), AgentSpec(START))  # type: ignore[arg-type]


def test_a_class_of_the_script_itself_stands_for_the_scripts_module(monkeypatch: pytest.MonkeyPatch):
    script = type(sys)("__main__")
    script.__file__ = "/somewhere/review.py"
    script.__spec__ = None
    monkeypatch.setitem(sys.modules, "__main__", script)
    scout = type("Scout", (), {"__module__": "__main__"})

    assert AgentSpec(scout).start == "review:Scout"  # type: ignore[arg-type]


def test_main_is_the_script_as_text_too(monkeypatch: pytest.MonkeyPatch):
    script = type(sys)("__main__")
    script.__spec__ = None
    monkeypatch.setitem(sys.modules, "__main__", script)
    scout = type("Scout", (), {"__module__": "__main__"})

    for file in (None, "<stdin>"):
        script.__file__ = file
        for start in (scout, "__main__:Scout"):
            with pytest.raises(InvalidSpec, match="Scout cannot be imported by another process: save it in a file"):
                AgentSpec(start)  # type: ignore[arg-type]
    script.__file__ = "/somewhere/review.py"
    assert AgentSpec("__main__:Scout").start == ObserverSpec("__main__:Scout").start == "review:Scout"


def test_durability_says_in_python_what_it_says_in_a_cluster_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert Cluster(agents=[START]).spec.journal is None
    assert Cluster(agents=[START], durability="memory").spec.journal is None
    assert (
        Cluster(agents=[START], durability="journal", name="mine").spec.journal == f"{tmp_path}/ether/mine/journal.db"
    )
    assert Cluster(agents=[START], durability="journal", journal="bus.db").spec.journal == "bus.db"
    with pytest.raises(InvalidSpec, match=r"memory keeps no journal, and one is named, bus\.db"):
        Cluster(agents=[START], durability="memory", journal="bus.db")
    with pytest.raises(InvalidSpec, match=r"'jounal' is no durability\. Did you mean 'journal'"):
        Cluster(agents=[START], durability="jounal")
    assert list(tmp_path.iterdir()) == []


def test_a_class_inside_a_function_cannot_be_had_by_another_process():
    class Inside:
        pass

    with pytest.raises(InvalidSpec, match=r"Inside cannot be imported by another process"):
        AgentSpec(Inside)  # type: ignore[arg-type]


def test_names_are_unique_across_nodes_and_rise_in_their_order():
    agent = AgentSpec(START)

    assert names(NodeSpec("a", (agent,)), NodeSpec("b", (agent, AgentSpec(START, count=2)))) == [
        ["worker"],
        ["worker-2", "worker-3", "worker-4"],
    ]


def test_a_given_name_is_kept_and_the_others_go_round_it():
    node = NodeSpec("a", (AgentSpec("a:Worker", count=2), AgentSpec("b:Other", name="worker-2")))

    assert names(node, taken=("worker",)) == [["worker-3", "worker-4", "worker-2"]]


def test_a_name_given_to_the_same_agent_twice_gets_a_number():
    agent = AgentSpec(START, name="x")

    assert names(NodeSpec("a", (agent,)), NodeSpec("b", (agent,)), taken=("x",)) == [["x"], ["x-2"]]


def test_the_short_form_puts_all_agents_on_each_node():
    spec = ClusterSpec.of(2, [START], drain=3.0)

    assert spec.nodes == (NodeSpec("node-1", (AgentSpec(START),)), NodeSpec("node-2", (AgentSpec(START),)))
    assert spec.drain == 3.0
    assert AgentSpec(START, restart="transient").restart is Restart.TRANSIENT  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AgentSpec("Worker"), "write module:Class"),
        (lambda: AgentSpec(3), "An agent's start is 3"),  # type: ignore[arg-type]
        (lambda: AgentSpec(START, count=0), "count is 0: give a whole number, 1 or more"),
        (lambda: AgentSpec(START, name="a b"), "is named 'a b'"),
        (lambda: AgentSpec(START, restart="always"), "'always' is not a restart"),  # type: ignore[arg-type]
        (lambda: NodeSpec(""), "A node is named ''"),
        (lambda: NodeSpec("n1", threads=True), "threads is True"),
        (lambda: ClusterSpec(()), "The cluster has no node"),
        (lambda: ClusterSpec.of(0), "nodes is 0"),
        (lambda: ClusterSpec.of([NodeSpec("n1")], [START]), "put them into the NodeSpecs"),
        (lambda: ClusterSpec((NodeSpec("n1"), NodeSpec("n1"))), "Two nodes are named 'n1'"),
        (
            lambda: ClusterSpec((NodeSpec("worker"), NodeSpec("n", (START,)))),  # type: ignore[arg-type]
            f"'worker' is the name of a node, and {START} has it too: nodes and agents share .* Rename one of the two.",
        ),
        (
            lambda: ClusterSpec((NodeSpec("x-2"), NodeSpec("n", (AgentSpec(START, name="x", count=2),)))),
            "'x-2' is the name of a node",
        ),
        (lambda: ClusterSpec((NodeSpec("broker"),)), "choose another name"),
        (lambda: ClusterSpec.of(1, drain=float("inf")), "drain is inf"),
        (lambda: ClusterSpec.of(1, log_level="inf"), "'inf' is no log level. Did you mean 'info'?"),
        (lambda: ClusterSpec.of(1, backoff=8.0), "backoff is 8.0: give a Backoff"),
        (lambda: ClusterSpec.of(1, limits={"count": 2}), "limits is {'count': 2}: give Limits"),
        (lambda: ClusterSpec.of(1, timing={"heartbeat": 1.0}), "timing is {'heartbeat': 1.0}: give a Timing"),
        (lambda: ClusterSpec.of(1, access="x"), "access is 'x': give an Access"),
    ],
)
def test_what_cannot_be_is_refused(make, says: str):
    with pytest.raises(InvalidSpec, match=says):
        make()


def test_an_address_that_is_none_is_refused_before_anything_starts():
    with pytest.raises(InvalidEndpoint):
        Cluster(bind="nowhere")


def test_a_whole_spec_takes_no_other_arguments():
    with pytest.raises(UsageError, match="A ClusterSpec says everything"):
        Cluster(ClusterSpec.of(1), [START])


def test_no_agent_is_given_the_name_that_another_has_by_its_class():
    with pytest.raises(InvalidSpec, match=r"b:Crew is named 'boss', the name that a:Boss has by its class"):
        ClusterSpec((NodeSpec("n", (AgentSpec("a:Boss"),)), NodeSpec("m", (AgentSpec("b:Crew", name="boss"),))))

    two_of_a_kind = NodeSpec("n", (AgentSpec("a:Boss"), AgentSpec("a:Boss", name="boss")))
    assert [agent.names for agent in name_agents([two_of_a_kind])[0]] == [("boss-2",), ("boss",)]
