"""When restarts are too many, and who then decides; and reports that come too late."""

from __future__ import annotations

import pytest

from ether_actors.restarts.events import ChildExited, ChildStarted, ChildStopped, Escalate, Exit, TimerFired
from ether_actors.restarts.supervisor_spec import Restart, Strategy, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle
from tests.actors.restarts.restart_shell import AT_ONCE, STEADY, child, children, running, supervisor

# Intensity


def test_as_many_restarts_as_the_intensity_are_borne_and_one_more_is_not() -> None:
    shell = running(supervisor("a b", intensity=2, backoff=AT_ONCE))

    assert shell.exits("a")[-1] == "restarted a 1"
    assert shell.exits("b")[-1] == "restarted b 1"
    assert shell.exits("a") == [
        *("down a crash", "stop b", "down b shutdown", "down root crash"),
        *("gone b", "gone a", "gone root", "escalate root"),
    ]
    assert shell.effects[-1] == Escalate(("root",), "more than 2 restarts in 5 s; the last to end was root/a: boom")


def test_a_restart_counts_until_it_is_older_than_the_period() -> None:
    for passed, last in [(5.0, "escalate root"), (5.001, "restarted a 1")]:
        shell = running(supervisor("a", intensity=1, period=5.0))
        shell.exits("a")
        shell.now += passed

        assert shell.exits("a")[-1] == last


def test_an_intensity_of_zero_bears_no_restart() -> None:
    assert running(supervisor("a", intensity=0)).exits("a")[-1] == "escalate root"


def test_the_restart_of_a_group_counts_once() -> None:
    shell = running(supervisor("a b c d", Strategy.ONE_FOR_ALL, intensity=1))

    shell.exits("a")

    assert shell.running() == "root a b c d"


def test_an_end_that_is_not_followed_by_a_restart_does_not_count() -> None:
    shell = running(SupervisorSpec("root", intensity=0, children=(child("a", restart=Restart.TEMPORARY),)))

    assert shell.exits("a") == ["down a crash", "gone a"]


# Escalation


def nested(**options: object) -> SupervisorSpec:
    inner = SupervisorSpec("inner", intensity=0, children=children("x y"), **options)  # type: ignore[arg-type]
    return SupervisorSpec("root", intensity=1, children=(child("a"), inner, child("b")))


@pytest.mark.parametrize("restart", [Restart.PERMANENT, Restart.TRANSIENT])
def test_a_supervisor_that_gives_up_is_restarted_by_its_own(restart: Restart) -> None:
    shell = running(nested(restart=restart))

    assert shell.exits("inner/x") == [
        *("down inner/x crash", "stop inner/y", "down inner/y shutdown", "down inner crash"),
        *(
            "start inner/x",
            "restarted inner/x 0",
            "start inner/y",
            "restarted inner/y 0",
            "restarted inner 1",
        ),
    ]


def test_a_supervisor_that_keeps_giving_up_takes_the_tree_down() -> None:
    shell = running(nested())
    shell.exits("inner/x")

    lines = shell.exits("inner/y")

    assert lines[:4] == ["down inner/y crash", "stop inner/x", "down inner/x shutdown", "down inner crash"]
    assert lines[4:8] == ["stop b", "down b shutdown", "stop a", "down a shutdown"]
    assert lines[-1] == "escalate root"
    reason = "the last to end was root/inner: more than 0 restarts in 5 s; the last to end was root/inner/y: boom"
    assert shell.effects[-1].reason.endswith(reason)  # type: ignore[union-attr]


def test_a_temporary_supervisor_that_gives_up_is_forgotten_with_all_below_it() -> None:
    shell = running(nested(restart=Restart.TEMPORARY))

    lines = shell.exits("inner/x")

    assert lines[-4:] == ["down inner crash", "gone inner/y", "gone inner/x", "gone inner"]
    assert shell.running() == "root a b"


def test_a_restarted_supervisor_begins_with_an_unspent_budget() -> None:
    inner = SupervisorSpec("inner", intensity=1, children=children("x"), backoff=AT_ONCE)
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.exits("inner/x")
    shell.exits("inner/x")

    assert shell.exits("inner/x") == ["down inner/x crash", "start inner/x", "restarted inner/x 1"]


def test_a_supervisor_whose_restart_fails_is_tried_again_by_its_own() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x"))
    shell = running(SupervisorSpec("root", children=(inner,), backoff=STEADY))
    shell.failing["inner/x"] = 1

    lines = shell.exits("inner/x")

    assert lines[-3:] == ["down inner/x unstarted", "down inner unstarted", "wait inner 0.10"]
    assert shell.passes(0.1) == ["start inner/x", "restarted inner/x 0", "restarted inner 2"]


# Late and wrong reports


def test_reports_that_come_too_late_change_nothing() -> None:
    shell = running(SupervisorSpec("root", children=(child("a"), child("b", restart=Restart.TRANSIENT))))
    first = shell.incarnations["a"]
    shell.exits("a")
    shell.exits("b", Exit.NORMAL)
    path = shell.path("a")

    assert shell.tell(ChildExited(path, Exit.CRASH, "again", incarnation=first)) == []
    assert shell.tell(ChildStopped(path, incarnation=first)) == []
    assert shell.tell(ChildStarted(path, incarnation=first)) == []
    assert shell.exits("b") == []
    assert shell.stopped("a") == []  # nobody asked
    assert shell.started("a") == []  # told already
    assert shell.running() == "root a"


def test_reports_about_what_is_not_there_change_nothing() -> None:
    shell = running(supervisor("a"))

    assert shell.exits("nobody") == []
    assert shell.exits("a/deeper") == []
    assert shell.exits("") == []  # a supervisor has no end of its own
    assert shell.tell(ChildStarted(("elsewhere", "a"))) == []
    assert shell.tell(ChildStarted(())) == []
    assert shell.tell(TimerFired(99)) == []


def test_an_exit_of_a_child_in_backoff_is_ignored() -> None:
    shell = running(supervisor("a", intensity=2))
    shell.exits("a")
    shell.exits("a")

    assert shell.state("a") is Lifecycle.BACKOFF
    assert shell.exits("a") == []


def test_an_unknown_event_is_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        running(supervisor("a")).tell("crash")  # type: ignore[arg-type]


def test_an_end_that_was_asked_for_from_outside_does_not_count_and_waits_for_nothing() -> None:
    shell = running(supervisor("a", intensity=1))

    for _ in range(3):
        assert shell.exits("a", Exit.ASKED)[:2] == ["down a asked", "start a"]
    assert shell.exits("a")[-1] == "restarted a 1"
    assert shell.exits("a", Exit.ASKED)[:2] == ["down a asked", "start a"]
    assert shell.exits("a")[-1] == "escalate root"
