"""Children that come and go while the tree runs."""

from __future__ import annotations

import pytest

from ether_actors.backoff import Backoff
from ether_actors.restarts.events import Remove, TimerFired
from ether_actors.restarts.supervisor_spec import Strategy, SupervisorSpec
from ether_broker.errors import InvalidSpec, Unavailable
from tests.actors.restarts.restart_shell import STEADY, Shell, child, children, running, supervisor, waiting

# Adding


def test_an_added_child_starts_last_and_belongs_to_the_group_from_then_on() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL))

    assert shell.add("", child("c")) == ["start c"]
    assert shell.exits("a")[1] == "stop c"


def test_an_added_child_that_does_not_come_up_is_forgotten() -> None:
    shell = running(supervisor("a", Strategy.ONE_FOR_ALL))
    shell.failing["b"] = 1

    assert shell.add("", child("b")) == ["start b", "down b unstarted", "gone b"]
    assert shell.running() == "root a"


def test_an_added_supervisor_starts_with_all_below_it_or_not_at_all() -> None:
    inner = SupervisorSpec("inner", children=children("x y"))
    shell = running(supervisor("a"))
    shell.failing["inner/y"] = 1

    assert shell.add("", inner) == [
        *(
            "start inner/x",
            "start inner/y",
            "down inner/y unstarted",
            "stop inner/x",
            "down inner/x shutdown",
        ),
        *("down inner unstarted", "gone inner/y", "gone inner/x", "gone inner"),
    ]
    assert shell.add("", inner) == ["start inner/x", "start inner/y"]


def test_a_child_added_while_a_group_restarts_waits_for_its_turn() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL))
    shell.held = {"b"}
    shell.exits("a")

    assert shell.add("", child("c")) == []
    assert shell.stopped("b") == ["down b shutdown", "start a", "restarted a 1", "start b"]
    assert shell.started("b") == ["restarted b 0", "start c"]


def test_a_child_added_behind_an_exit_that_waits_starts_with_the_group_and_once() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL))
    shell.held = {"b"}
    shell.exits("a")
    shell.stopped("b")
    shell.exits("a")
    shell.add("", child("c"))
    shell.held.clear()

    lines = shell.started("b")

    assert lines == ["restarted b 0", "wait a 0.10", "stop b", "down b shutdown"]
    assert [line for line in shell.passes(0.1) if line.startswith("st")] == ["start a", "start b", "start c"]


def test_a_child_that_starts_slowly_after_it_was_added_stops_and_starts_with_its_group() -> None:
    shell = running(supervisor("a", Strategy.ONE_FOR_ALL))
    shell.held = {"b"}
    shell.add("", child("b"))

    assert shell.exits("a") == ["down a crash", "stop b"]
    assert shell.stopped("b") == ["down b shutdown", "start a", "restarted a 1", "start b"]


def test_a_child_that_waits_to_be_added_does_not_start_when_its_supervisor_stops() -> None:
    inner = SupervisorSpec("inner", Strategy.ONE_FOR_ALL, children=children("x y"))
    shell = running(SupervisorSpec("root", Strategy.ONE_FOR_ALL, children=(child("a"), inner)))
    shell.held = {"inner/y"}
    shell.exits("inner/x")
    shell.add("inner", child("z"))
    shell.exits("a")
    shell.held.clear()

    lines = shell.stopped("inner/y")

    assert "start inner/z" not in lines
    assert "gone inner/z" in lines
    assert shell.running() == "root a inner inner/x inner/y"


def test_an_added_child_is_lost_when_its_supervisor_is_restarted() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x"))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.add("inner", child("y"))

    lines = shell.exits("inner/x")

    assert "gone inner/y" in lines
    assert shell.running() == "root inner inner/x"


def test_a_change_that_names_the_wrong_thing_is_refused_and_changes_nothing() -> None:
    shell = running(SupervisorSpec("root", children=(child("writer"), SupervisorSpec("pool"))))

    with pytest.raises(InvalidSpec, match="root has a child 'writer' already; choose another id"):
        shell.add("", child("writer"))
    with pytest.raises(InvalidSpec, match=r"There is no child 'root/pol'\. Did you mean 'root/pool'\?"):
        shell.add("pol", child("x"))
    with pytest.raises(InvalidSpec, match="root/writer is an agent; name its supervisor, 'root'"):
        shell.add("writer", child("x"))
    assert shell.tree.step(TimerFired(0), shell.now) == ()
    assert shell.running() == "root writer pool"


def test_a_change_to_a_supervisor_that_is_not_up_is_refused_for_now() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x"))
    shell = Shell(SupervisorSpec("root", children=(inner,), backoff=STEADY))

    with pytest.raises(Unavailable, match="Supervisor root is pending; try again when it runs"):
        shell.add("", child("a"))
    shell.start()
    shell.exits("inner/x")
    shell.exits("inner/x")
    with pytest.raises(Unavailable, match="Supervisor root/inner is backoff"):
        shell.add("inner", child("y"))
    shell.passes(0.1)
    assert shell.add("inner", child("y")) == ["start inner/y"]


# Removing


@pytest.mark.parametrize("strategy", Strategy)
def test_a_removed_child_is_not_taken_along_by_its_siblings(strategy: Strategy) -> None:
    shell = running(supervisor("a b", strategy))

    assert shell.removes("b") == ["down b shutdown", "gone b"]

    assert shell.exits("a") == ["down a crash", "start a", "restarted a 1"]
    assert shell.removes("b") == []


@pytest.mark.parametrize("strategy", Strategy)
def test_a_removed_child_does_not_come_back_when_its_backoff_ends(strategy: Strategy) -> None:
    shell = waiting("a b", strategy, "a")

    lines = shell.removes("a")

    assert lines[0] == "gone a"
    assert shell.passes(60.0) == []
    assert shell.running() == "root b"


def test_siblings_that_waited_with_a_removed_child_start() -> None:
    shell = waiting("a b c", Strategy.REST_FOR_ONE, "b")

    assert shell.removes("b") == ["gone b", "start c", "restarted c 0"]


def test_siblings_that_still_stop_for_a_removed_child_start_when_they_have() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL))
    shell.exits("a")
    shell.held = {"c"}
    shell.exits("a")

    assert shell.removes("a") == ["gone a"]
    shell.held.clear()
    assert [line for line in shell.stopped("c") if line.startswith("st")] == ["stop b", "start b", "start c"]


def test_a_start_goes_on_behind_a_child_that_is_removed_while_it_starts() -> None:
    shell = Shell(supervisor("a b"))
    shell.held = {"a"}
    shell.start()

    assert shell.removes("a") == ["down a shutdown", "gone a", "start b"]
    assert shell.started("a") == []
    assert shell.running() == "root b"


def test_a_removed_child_does_not_come_back_with_its_supervisor() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x y"))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.removes("inner/x")

    shell.exits("inner/y")

    assert shell.running() == "root inner inner/y"


def test_a_child_that_is_being_stopped_may_be_removed() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL))
    shell.held = {"b"}
    shell.exits("a")

    assert shell.removes("b") == ["down b shutdown", "gone b", "start a", "restarted a 1"]
    assert shell.stopped("b") == []


def test_removing_nobody_or_the_root_changes_nothing() -> None:
    shell = running(SupervisorSpec("root", children=(SupervisorSpec("inner", children=children("x")),)))

    assert shell.removes("nobody") == []
    assert shell.tell(Remove(("root",))) == []
    assert shell.running() == "root inner inner/x"


def test_a_supervisor_that_is_removed_takes_along_all_below_it_and_its_name_is_free() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x y"))
    shell = running(SupervisorSpec("root", intensity=0, children=(inner,)))

    assert shell.removes("inner") == [
        "down inner/y shutdown", "down inner/x shutdown", "down inner shutdown",
        "gone inner/y", "gone inner/x", "gone inner",
    ]  # fmt: skip
    assert shell.exits("inner/x") == []
    assert shell.running() == "root"
    shell.add("", inner)
    assert shell.running() == "root inner inner/x inner/y"


def test_a_supervisor_whose_child_waits_for_its_restart_can_be_removed() -> None:
    inner = SupervisorSpec("inner", children=children("x"), backoff=Backoff(initial=1.0, jitter=0.0))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.exits("inner/x")
    shell.exits("inner/x")

    assert shell.removes("inner") == ["down inner shutdown", "gone inner/x", "gone inner"]
    assert shell.passes(5.0) == []
