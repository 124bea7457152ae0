"""The end of a tree, and what it shows of itself."""

from __future__ import annotations

import math

import pytest

from ether_actors.restarts.events import ChildStartFailed, Exit, StopChild
from ether_actors.restarts.supervisor_spec import Restart, Strategy, SupervisorSpec
from ether_actors.restarts.tree import ChildStatistics, Lifecycle
from ether_broker.errors import Closed, UsageError
from tests.actors.restarts.restart_shell import Shell, child, children, running, supervisor, waiting

# Stopping


def test_a_tree_stops_in_reverse_start_order() -> None:
    inner = SupervisorSpec("inner", children=children("x y"))
    shell = running(SupervisorSpec("root", children=(child("a"), inner, child("b"))))

    assert shell.stop() == [
        *("stop b", "down b shutdown"),
        *("stop inner/y", "down inner/y shutdown", "stop inner/x", "down inner/x shutdown"),
        *("down inner shutdown", "stop a", "down a shutdown", "down root shutdown"),
        *("gone b", "gone inner/y", "gone inner/x", "gone inner", "gone a", "gone root"),
    ]


def test_the_next_child_is_told_to_stop_when_the_one_after_it_has_stopped() -> None:
    shell = running(supervisor("a b"))
    shell.held = {"a", "b"}

    assert shell.stop() == ["stop b"]
    assert shell.stop() == []
    assert shell.stopped("b") == ["down b shutdown", "stop a"]


def test_a_stop_carries_the_time_that_the_child_has() -> None:
    spec = (child("a", shutdown=0), child("b", shutdown=math.inf), child("c", shutdown=2.5))
    shell = running(SupervisorSpec("root", children=spec))
    shell.stop()

    assert [effect.timeout for effect in shell.effects if isinstance(effect, StopChild)] == [2.5, math.inf, 0]


def test_a_stop_does_not_wait_for_a_child_that_is_starting() -> None:
    shell = Shell(supervisor("a b c"))
    shell.held = {"b"}
    shell.start()

    assert shell.stop() == ["stop b"]
    assert shell.tell(ChildStartFailed(shell.path("b")))[:3] == [
        "down b unstarted",
        "stop a",
        "down a shutdown",
    ]


def test_a_stop_ends_a_group_restart() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL))
    shell.held = {"b"}
    shell.exits("a")

    assert shell.stop() == []  # c has been stopped, b is being
    assert shell.stopped("b")[:2] == ["down b shutdown", "down root shutdown"]


def test_after_a_stop_no_timer_does_anything() -> None:
    shell = waiting("a b", Strategy.ONE_FOR_ONE, "a")
    shell.held = {"b"}
    shell.stop()

    assert shell.passes(0.1) == []
    assert shell.stopped("b")[:2] == ["down b shutdown", "down root shutdown"]
    assert shell.passes(99.0) == []


def test_a_timer_that_fires_before_the_stop_comes_to_its_child_starts_nothing() -> None:
    shell = waiting("a b", Strategy.ONE_FOR_ONE, "a")
    shell.held = {"b"}
    shell.stop()

    assert shell.passes(0.1) == []
    assert shell.stopped("b")[-1] == "gone root"


def test_a_tree_that_never_started_stops_at_once() -> None:
    shell = Shell(supervisor("a"))

    assert shell.stop() == ["gone root"]
    assert shell.stop() == []


def test_a_stop_while_the_root_gives_up_does_not_hide_why() -> None:
    shell = running(supervisor("a b", intensity=0))
    shell.held = {"b"}
    shell.exits("a")

    assert shell.stop() == []
    assert shell.stopped("b")[-1] == "escalate root"


def test_a_stopping_tree_takes_no_changes() -> None:
    shell = running(supervisor("a"))
    shell.held = {"a"}
    shell.stop()

    with pytest.raises(Closed, match="The tree 'root' is stopping or has ended"):
        shell.add("", child("b"))
    shell.stopped("a")
    with pytest.raises(Closed, match="The tree 'root' is stopping or has ended"):
        shell.add("", child("b"))


def test_a_tree_starts_once() -> None:
    shell = running(supervisor("a"))

    with pytest.raises(UsageError, match="The tree 'root' has been started already; make a new RestartMachine"):
        shell.start()


# What it shows


def test_statistics_tell_where_everything_stands() -> None:
    inner = SupervisorSpec("inner", children=children("x"))
    shell = running(SupervisorSpec("root", children=(child("a", restart=Restart.TRANSIENT), inner, child("b"))))
    shell.exits("a", Exit.NORMAL)
    shell.exits("inner/x")
    shell.exits("b")
    shell.exits("b")

    assert shell.tree.statistics().children == {
        ("root",): ChildStatistics(Lifecycle.RUNNING, 0),
        ("root", "a"): ChildStatistics(Lifecycle.DONE, 0),
        ("root", "inner"): ChildStatistics(Lifecycle.RUNNING, 0),
        ("root", "inner", "x"): ChildStatistics(Lifecycle.RUNNING, 1),
        ("root", "b"): ChildStatistics(Lifecycle.BACKOFF, 1),
    }


def test_a_snapshot_does_not_change_with_the_tree() -> None:
    shell = running(supervisor("a"))
    before = shell.tree.statistics()
    shell.exits("a")

    assert before.children["root", "a"].restarts == 0
    with pytest.raises(TypeError):
        before.children["root", "a"] = ChildStatistics(Lifecycle.DONE, 0)  # type: ignore[index]


def test_a_step_out_of_order_in_the_lifecycle_is_a_bug() -> None:
    shell = running(supervisor("a"))

    with pytest.raises(AssertionError, match="root: RUNNING to PENDING"):
        shell.tree._root.move(Lifecycle.PENDING)


def test_thousands_of_children_are_no_deep_recursion() -> None:
    shell = running(supervisor(" ".join(f"a{number}" for number in range(5000)), Strategy.ONE_FOR_ALL))

    lines = shell.exits("a2500")

    assert lines.count("down a2500 crash") == 1
    assert [len([line for line in lines if line.startswith(word)]) for word in ("stop", "start")] == [
        4999,
        5000,
    ]
