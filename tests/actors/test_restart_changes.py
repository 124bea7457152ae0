"""Children that come and go while the tree runs."""

from __future__ import annotations

import pytest

from ether_actors.child_spec import Restart, Strategy, SupervisorSpec
from ether_actors.restart_events import Exit, StopChild, TimerFired
from ether_broker.errors import InvalidSpec, Unavailable
from tests.actors.restart_shell import STEADY, Shell, child, children, running, supervisor, waiting

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


def test_a_removal_that_waits_when_its_supervisor_stops_is_forgotten() -> None:
    inner = SupervisorSpec("inner", Strategy.ONE_FOR_ALL, children=children("x y z"))
    shell = running(SupervisorSpec("root", Strategy.ONE_FOR_ALL, children=(child("a"), inner)))
    shell.held = {"inner/z"}
    shell.exits("inner/x")
    shell.remove("inner/x")
    shell.exits("a")
    shell.held.clear()

    shell.stopped("inner/z")

    assert shell.running() == "root a inner inner/x inner/y inner/z"


def test_an_added_child_is_lost_when_its_supervisor_is_restarted() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x"))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.add("inner", child("y"))

    lines = shell.exits("inner/x")

    assert "gone inner/y" in lines
    assert shell.running() == "root inner inner/x"


def test_a_removed_child_is_back_when_its_supervisor_is_restarted() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x y"))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.remove("inner/y")
    shell.exits("inner/x")

    assert shell.running() == "root inner inner/x inner/y"


def test_a_child_added_in_place_of_a_removed_one_gives_way_to_the_spec_when_the_supervisor_restarts() -> None:
    inner = SupervisorSpec("inner", intensity=0, children=children("x y"))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.remove("inner/y")
    shell.add("inner", child("y", shutdown=1.0))

    shell.exits("inner/x")
    shell.stop()

    stops = [effect for effect in shell.effects if isinstance(effect, StopChild) and effect.path[-1] == "y"]
    assert [effect.timeout for effect in stops] == [5.0, 1.0, 5.0]


def test_a_change_that_names_the_wrong_thing_is_refused_and_changes_nothing() -> None:
    shell = running(SupervisorSpec("root", children=(child("writer"), SupervisorSpec("pool"))))

    with pytest.raises(InvalidSpec, match="root has a child 'writer' already; remove it first"):
        shell.add("", child("writer"))
    with pytest.raises(InvalidSpec, match=r"There is no child 'root/pol'\. Did you mean 'root/pool'\?"):
        shell.add("pol", child("x"))
    with pytest.raises(InvalidSpec, match="root/writer is an agent; name its supervisor, 'root'"):
        shell.add("writer", child("x"))
    with pytest.raises(InvalidSpec, match=r"There is no child 'root/writr'\. Did you mean 'root/writer'\?"):
        shell.remove("writr")
    with pytest.raises(InvalidSpec, match="root is the root and cannot be removed; Stop ends the whole tree"):
        shell.remove("")
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
        shell.remove("inner/x")
    shell.passes(0.1)
    assert shell.add("inner", child("y")) == ["start inner/y"]


# Removing


def test_a_removed_child_is_stopped_and_forgotten() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL))

    assert shell.remove("b") == ["stop b", "down b shutdown", "gone b"]
    assert shell.running() == "root a c"
    assert shell.add("", child("b")) == ["start b"]


def test_a_removed_supervisor_is_stopped_and_forgotten_with_all_below_it() -> None:
    shell = running(SupervisorSpec("root", children=(SupervisorSpec("inner", children=children("x y")),)))

    assert shell.remove("inner") == [
        *("stop inner/y", "down inner/y shutdown", "stop inner/x", "down inner/x shutdown"),
        *("down inner shutdown", "gone inner/y", "gone inner/x", "gone inner"),
    ]


def test_a_child_that_is_being_removed_is_not_removed_twice() -> None:
    shell = running(supervisor("a"))
    shell.held = {"a"}
    shell.remove("a")

    assert shell.remove("a") == []
    assert shell.exits("a") == ["down a crash", "gone a"]


def test_a_child_that_is_starting_can_be_removed() -> None:
    shell = Shell(supervisor("a b"))
    shell.held = {"a"}
    shell.start()

    assert shell.remove("a") == ["stop a"]
    assert shell.started("a") == []  # it came up after all, and is told to stop already
    assert shell.stopped("a") == ["down a shutdown", "gone a", "start b"]


def test_when_a_waiting_child_is_removed_its_siblings_start_without_it() -> None:
    shell = waiting("a b c", Strategy.ONE_FOR_ALL, "b")

    assert shell.remove("b") == ["gone b", "start a", "restarted a 0", "start c", "restarted c 0"]
    assert shell.passes(9.0) == []


def test_a_child_added_to_a_group_that_waits_starts_in_its_turn_when_the_waiting_child_is_removed() -> None:
    shell = waiting("a b c", Strategy.ONE_FOR_ALL, "c")
    shell.held = {"a"}

    assert shell.add("", child("d")) == []
    assert shell.remove("c") == ["gone c", "start a"]
    assert [line for line in shell.started("a") if line.startswith("start")] == ["start b", "start d"]


def test_when_a_sibling_that_waits_is_removed_the_others_go_on_waiting() -> None:
    shell = waiting("a b c", Strategy.ONE_FOR_ALL, "b")

    assert shell.remove("c") == ["gone c"]
    assert [line for line in shell.passes(0.1) if line.startswith("start")] == ["start a", "start b"]


def test_a_child_removed_while_its_group_stops_goes_when_its_turn_has_come() -> None:
    shell = running(supervisor("a b c d", Strategy.ONE_FOR_ALL))
    shell.exits("a")
    shell.held = {"c", "d"}
    shell.exits("a")

    assert shell.remove("a") == []  # it waits for its restart
    assert shell.remove("b") == []  # it is to be stopped
    assert shell.stopped("d") == ["down d shutdown", "stop c"]
    lines = shell.stopped("c")
    assert lines == ["down c shutdown", "stop b", "down b shutdown", "gone b", "gone a", "start c"]


def test_a_group_restart_waits_for_a_sibling_that_is_being_removed() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL))
    shell.held = {"c"}
    shell.remove("c")

    assert shell.exits("a") == ["down a crash"]
    assert shell.stopped("c")[:3] == ["down c shutdown", "gone c", "stop b"]
    assert shell.running() == "root a b"


def test_a_child_removed_before_its_turn_in_a_group_start_does_not_start() -> None:
    shell = running(supervisor("a b c", Strategy.ONE_FOR_ALL))
    shell.held = {"a"}
    shell.exits("b")
    shell.stopped("a")

    assert shell.remove("b") == []
    assert shell.started("a") == ["restarted a 0", "start c", "restarted c 0", "gone b"]


def test_a_child_that_ended_for_good_can_be_removed_and_added_again() -> None:
    shell = running(SupervisorSpec("root", children=(child("a", restart=Restart.TRANSIENT),)))
    shell.exits("a", Exit.NORMAL)

    with pytest.raises(InvalidSpec, match="remove it first"):
        shell.add("", child("a"))
    assert shell.remove("a") == []  # it is gone already
    assert shell.add("", child("a")) == ["start a"]
