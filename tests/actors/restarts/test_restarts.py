"""The rows of OTP's tables: who is started again, and whom that takes along."""

from __future__ import annotations

import pytest

from ether_actors.restarts.events import Down, Escalate, Exit
from ether_actors.restarts.supervisor_spec import Restart, Strategy, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle
from tests.actors.restarts.restart_shell import AT_ONCE, STEADY, Shell, child, children, running, supervisor

# Starting


def test_children_start_one_after_the_other() -> None:
    shell = Shell(supervisor("a b"))
    shell.held = {"a", "b"}

    assert shell.start() == ["start a"]
    assert shell.started("a") == ["start b"]
    assert shell.state("") is Lifecycle.STARTING
    assert shell.started("b") == []
    assert shell.state("") is Lifecycle.RUNNING


def test_a_supervisor_starts_its_children_before_the_sibling_after_it() -> None:
    inner = SupervisorSpec("inner", children=(*children("x"), SupervisorSpec("empty"), *children("y")))
    shell = Shell(SupervisorSpec("root", children=(child("a"), inner, child("b"))))

    assert shell.start() == ["start a", "start inner/x", "start inner/y", "start b"]
    assert shell.running() == "root a inner inner/x inner/empty inner/y b"


def test_a_child_that_does_not_come_up_at_the_start_stops_those_before_it_and_escalates() -> None:
    shell = Shell(supervisor("a b c d"))
    shell.failing["c"] = 1

    assert shell.start() == [
        *("start a", "start b", "start c", "down c unstarted"),
        *("stop b", "down b shutdown", "stop a", "down a shutdown"),
        *("down root unstarted", "gone d", "gone c", "gone b", "gone a", "gone root", "escalate root"),
    ]
    assert shell.effects[-1] == Escalate(("root",), "root/c did not start: no luck")


def test_a_failed_start_below_a_supervisor_fails_the_start_of_all_above_it() -> None:
    inner = SupervisorSpec("inner", children=children("x"))
    shell = Shell(SupervisorSpec("root", children=(child("a"), inner)))
    shell.failing["inner/x"] = 1

    lines = shell.start()

    assert lines[:6] == [
        *("start a", "start inner/x", "down inner/x unstarted", "down inner unstarted"),
        *("stop a", "down a shutdown"),
    ]
    assert lines[-1] == "escalate root"


def test_an_exit_before_the_child_has_reported_its_start_is_a_failed_start() -> None:
    shell = Shell(supervisor("a"))
    shell.held = {"a"}
    shell.start()

    assert shell.exits("a", Exit.NORMAL)[0] == "down a unstarted"
    assert shell.state("") is Lifecycle.DONE


# Who is started again: supervisor.erl, do_restart

AGAIN, KEPT, FORGOTTEN = Lifecycle.RUNNING, Lifecycle.DONE, None


@pytest.mark.parametrize(
    ("restart", "reason", "after"),
    [
        pytest.param(restart, reason, after, id=f"{restart.value} {reason.value}")
        for restart, reason, after in [
            (Restart.PERMANENT, Exit.NORMAL, AGAIN),
            (Restart.PERMANENT, Exit.SHUTDOWN, AGAIN),
            (Restart.PERMANENT, Exit.CRASH, AGAIN),
            (Restart.TRANSIENT, Exit.NORMAL, KEPT),
            (Restart.TRANSIENT, Exit.SHUTDOWN, KEPT),
            (Restart.TRANSIENT, Exit.CRASH, AGAIN),
            (Restart.TEMPORARY, Exit.NORMAL, FORGOTTEN),
            (Restart.TEMPORARY, Exit.SHUTDOWN, FORGOTTEN),
            (Restart.TEMPORARY, Exit.CRASH, FORGOTTEN),
        ]
    ],
)
def test_the_restart_type_and_the_exit_decide_whether_a_child_is_started_again(
    restart: Restart, reason: Exit, after: Lifecycle | None
) -> None:
    shell = running(SupervisorSpec("root", children=(child("a", restart=restart), child("b"))))

    lines = shell.exits("a", reason)

    again = ["start a", "restarted a 1"] if after is AGAIN else ["gone a"]
    assert lines == [f"down a {reason.value}", *again]
    assert shell.state("a") is after
    assert shell.state("b") is Lifecycle.RUNNING


def test_monitors_are_told_how_a_child_ended() -> None:
    shell = running(supervisor("a"))

    shell.exits("a")

    assert Down(("root", "a"), Exit.CRASH, "boom") in shell.effects


# Whom a restart takes along


@pytest.mark.parametrize(
    ("strategy", "stopped", "started"),
    [
        (Strategy.ONE_FOR_ONE, "", "b"),
        (Strategy.REST_FOR_ONE, "d c", "b c d"),
        (Strategy.ONE_FOR_ALL, "d c a", "a b c d"),
    ],
    ids=lambda value: getattr(value, "value", value),
)
def test_the_strategy_decides_who_is_stopped_in_reverse_and_started_in_order(
    strategy: Strategy, stopped: str, started: str
) -> None:
    shell = running(supervisor("a b c d", strategy))

    lines = shell.exits("b")

    assert [line for line in lines if line.startswith("stop")] == [f"stop {id_}" for id_ in stopped.split()]
    assert [line for line in lines if line.startswith("start")] == [f"start {id_}" for id_ in started.split()]
    assert shell.running() == "root a b c d"


@pytest.mark.parametrize("strategy", [Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE])
def test_a_group_is_stopped_and_started_one_by_one(strategy: Strategy) -> None:
    shell = running(supervisor("a b c", strategy))
    shell.held = {"a", "b", "c"}

    assert shell.exits("a") == ["down a crash", "stop c"]
    assert shell.stopped("c") == ["down c shutdown", "stop b"]
    assert shell.stopped("b") == ["down b shutdown", "start a"]
    assert shell.started("a") == ["restarted a 1", "start b"]
    assert shell.started("b") == ["restarted b 0", "start c"]
    assert shell.started("c") == ["restarted c 0"]


def test_a_supervisor_among_the_siblings_is_stopped_and_started_with_all_below_it() -> None:
    inner = SupervisorSpec("inner", children=children("x y"))
    shell = running(SupervisorSpec("root", Strategy.ONE_FOR_ALL, children=(child("a"), inner)))

    assert shell.exits("a") == [
        *("down a crash", "stop inner/y", "down inner/y shutdown", "stop inner/x", "down inner/x shutdown"),
        *("down inner shutdown", "start a", "restarted a 1", "start inner/x", "restarted inner/x 0"),
        *("start inner/y", "restarted inner/y 0", "restarted inner 0"),
    ]


def test_a_temporary_sibling_is_stopped_with_the_group_and_forgotten() -> None:
    spec = (child("a"), child("b", restart=Restart.TEMPORARY))
    shell = running(SupervisorSpec("root", Strategy.ONE_FOR_ALL, children=spec))

    lines = shell.exits("a")

    assert lines == ["down a crash", "stop b", "down b shutdown", "gone b", "start a", "restarted a 1"]
    assert shell.state("b") is None


def test_a_transient_sibling_that_had_ended_normally_is_started_again_with_its_group() -> None:
    spec = (child("a"), child("b", restart=Restart.TRANSIENT))
    shell = running(SupervisorSpec("root", Strategy.ONE_FOR_ALL, children=spec))
    shell.exits("b", Exit.NORMAL)

    assert shell.exits("a") == ["down a crash", "start a", "restarted a 1", "start b", "restarted b 0"]


def test_an_end_that_is_not_followed_by_a_restart_takes_nobody_along() -> None:
    spec = (child("a", restart=Restart.TRANSIENT), child("b"))
    shell = running(SupervisorSpec("root", Strategy.ONE_FOR_ALL, children=spec))

    assert shell.exits("a", Exit.NORMAL) == ["down a normal", "gone a"]


# While a group is being restarted


def test_an_exit_during_a_group_restart_waits_for_its_turn() -> None:
    shell = running(supervisor("a b c", Strategy.REST_FOR_ONE, backoff=AT_ONCE))
    shell.held = {"c"}
    shell.exits("b")

    assert shell.exits("a") == ["down a crash"]
    assert shell.state("a") is Lifecycle.ENDED
    # c first stops, then starts for b's sake; then it is a's turn, which takes b and c along.
    assert shell.stopped("c") == ["down c shutdown", "start b", "restarted b 1", "start c"]
    assert shell.started("c") == ["restarted c 0", "stop c"]
    assert shell.stopped("c")[:4] == ["down c shutdown", "stop b", "down b shutdown", "start a"]


def test_an_exit_that_a_siblings_restart_has_overtaken_is_ignored() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL, intensity=2, backoff=AT_ONCE))
    shell.held = {"c"}
    shell.exits("c")
    shell.exits("a")
    shell.exits("b")  # this and a's wait for c; a's restart then takes b along

    lines = shell.started("c")

    assert lines == ["restarted c 1", "stop c"]
    shell.held.clear()
    assert shell.stopped("c")[-1] == "restarted c 1"
    assert shell.running() == "root a b c"


def test_a_temporary_sibling_that_had_ended_before_the_group_restart_is_forgotten_once() -> None:
    spec = (child("a"), child("t", restart=Restart.TEMPORARY), child("c"))
    shell = running(SupervisorSpec("root", Strategy.REST_FOR_ONE, children=spec))
    shell.held = {"c"}
    shell.exits("c")
    shell.exits("a")
    shell.exits("t")  # this and a's wait for c; a's restart comes first, and t belongs to its group
    shell.held.clear()

    lines = shell.started("c")

    assert lines[:5] == ["restarted c 1", "stop c", "down c shutdown", "gone t", "start a"]
    assert lines.count("gone t") == 1


def test_a_sibling_that_ends_before_its_stop_comes_is_not_told_and_costs_nothing() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL, intensity=1))
    shell.held = {"c"}
    shell.exits("a")

    assert shell.exits("b") == ["down b crash"]
    assert shell.stopped("c") == [
        *("down c shutdown", "start a", "restarted a 1", "start b", "restarted b 0", "start c"),
    ]


def test_an_exit_instead_of_a_stopped_ends_the_stop() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL, intensity=1))
    shell.held = {"b"}
    shell.exits("a")

    assert shell.exits("b") == ["down b crash", "start a", "restarted a 1", "start b"]


def test_a_failed_start_instead_of_a_stopped_ends_the_stop_and_the_group_starts() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL))
    shell.held = {"c"}
    shell.add("", child("c"))
    shell.exits("a")  # c is told to stop while it starts

    lines = shell.not_started("c")

    assert [line for line in lines if line.startswith("start ")] == ["start a", "start b", "start c"]


def test_a_slow_restart_holds_up_nobody_under_one_for_one() -> None:
    shell = running(supervisor("a b"))
    shell.held = {"a"}
    shell.exits("a")

    assert shell.exits("b") == ["down b crash", "start b", "restarted b 1"]


# A failed restart


def test_a_failed_restart_counts_waits_and_is_tried_again() -> None:
    shell = running(supervisor("a", intensity=4, backoff=STEADY))
    shell.now += 60.0  # a long time well; what fails after it is the start
    shell.failing["a"] = 2

    assert shell.exits("a") == ["down a crash", "start a", "down a unstarted", "wait a 0.10"]
    assert shell.passes(0.1) == ["start a", "down a unstarted", "wait a 0.20"]
    assert shell.passes(0.2) == ["start a", "restarted a 3"]


def test_failed_restarts_spend_the_budget() -> None:
    shell = running(supervisor("a", intensity=2, backoff=AT_ONCE))
    shell.failing["a"] = 9

    lines = shell.exits("a")

    assert lines.count("start a") == 2
    assert lines[-1] == "escalate root"


def test_a_failed_restart_is_tried_again_whatever_the_restart_type() -> None:
    shell = running(SupervisorSpec("root", children=(child("a", restart=Restart.TRANSIENT),)))
    shell.failing["a"] = 1
    shell.exits("a")

    assert shell.passes(1.0) == ["start a", "restarted a 2"]


def test_when_a_sibling_does_not_come_up_the_group_is_stopped_and_tried_again() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL, backoff=STEADY))
    shell.failing["b"] = 2

    lines = shell.exits("a")

    tried = ["start a", "restarted a 1", "start b", "down b unstarted"]
    assert lines[5:] == [
        *tried,
        *("stop a", "down a shutdown"),
        *tried,
        *("wait b 0.10", "stop a", "down a shutdown"),
    ]
    assert [shell.state(id_) for id_ in "abc"] == [Lifecycle.PENDING, Lifecycle.BACKOFF, Lifecycle.PENDING]
    assert [line for line in shell.passes(0.1) if line.startswith("start")] == [
        "start a",
        "start b",
        "start c",
    ]
