"""Restarts that wait."""

from __future__ import annotations

from ether_actors.backoff import Backoff
from ether_actors.restarts.supervisor_spec import Strategy, SupervisorSpec
from ether_actors.restarts.tree import Lifecycle
from tests.actors.restarts.restart_shell import children, running, supervisor, waiting


def test_the_first_restart_is_at_once_and_the_next_ones_wait_longer_each() -> None:
    shell = running(supervisor("a", intensity=9))

    waits = [shell.exits("a")[-1], *((shell.exits("a")[-1], shell.passes(1.0))[0] for _ in range(3))]

    assert waits == ["restarted a 1", "wait a 0.10", "wait a 0.20", "wait a 0.40"]


def test_after_a_quiet_time_the_next_restart_is_at_once_again() -> None:
    shell = waiting("a", Strategy.ONE_FOR_ONE, "a")
    shell.passes(0.1 + 4.9)

    assert shell.exits("a")[-1] == "wait a 0.20"
    shell.passes(0.2 + 5.0)
    assert shell.exits("a")[-1] == "restarted a 1"


def test_time_spent_waiting_is_no_quiet_time() -> None:
    shell = running(supervisor("a", backoff=Backoff(initial=60.0, maximum=60.0, jitter=0.0)))
    shell.exits("a")
    shell.exits("a")
    shell.passes(60.0)

    assert shell.exits("a")[-1] == "wait a 60.00"


def test_each_child_has_its_own_delay() -> None:
    shell = waiting("a b", Strategy.ONE_FOR_ONE, "a")

    assert shell.exits("b")[-1] == "restarted b 1"


def test_siblings_are_stopped_at_once_and_wait_with_the_child_that_fell() -> None:
    shell = running(supervisor("a b c", Strategy.REST_FOR_ONE))
    shell.exits("b")

    assert shell.exits("b") == ["down b crash", "wait b 0.10", "stop c", "down c shutdown"]
    assert shell.state("c") is Lifecycle.PENDING
    assert shell.running() == "root a"
    assert shell.passes(0.1) == ["start b", "restarted b 2", "start c", "restarted c 0"]


def test_a_timer_that_fires_while_the_group_still_stops_waits_for_it() -> None:
    shell = running(supervisor("a b", Strategy.ONE_FOR_ALL))
    shell.exits("a")
    shell.held = {"b"}
    shell.exits("a")

    assert shell.passes(0.1) == []
    assert shell.stopped("b") == ["down b shutdown", "start a", "restarted a 2", "start b"]


def test_the_restart_of_an_earlier_sibling_overtakes_a_wait() -> None:
    shell = waiting("a b c", Strategy.REST_FOR_ONE, "b")

    lines = shell.exits("a")

    assert [line for line in lines if line.startswith("start")] == ["start a", "start b", "start c"]
    assert shell.passes(9.0) == []  # b's timer means nothing any more


def test_an_old_timer_does_not_shorten_a_newer_wait() -> None:
    shell = running(supervisor("a b", Strategy.REST_FOR_ONE, intensity=9))
    shell.exits("b")
    shell.exits("b")  # until 0.1
    shell.exits("a")  # and both are up again

    assert shell.exits("b")[-1] == "wait b 0.20"
    assert shell.passes(0.15) == []
    assert shell.passes(0.05) == ["start b", "restarted b 3"]


def test_a_restart_that_was_due_and_has_been_overtaken_does_not_shorten_a_newer_wait() -> None:
    shell = running(supervisor("a b c", Strategy.REST_FOR_ONE, intensity=9))
    shell.exits("b")
    shell.held = {"c"}
    shell.exits("b")
    shell.exits("a")  # waits until c has stopped
    shell.passes(0.1)  # b's restart is due, and waits behind a's
    shell.failing["b"] = 1

    lines = shell.stopped("c")

    assert lines[1:] == ["start a", "restarted a 1", "start b", "down b unstarted", "wait b 0.20"]
    assert shell.state("b") is Lifecycle.BACKOFF


def test_an_exit_that_waits_when_its_supervisor_gives_up_is_forgotten() -> None:
    inner = SupervisorSpec("inner", Strategy.REST_FOR_ONE, intensity=1, children=children("x y z"))
    shell = running(SupervisorSpec("root", children=(inner,)))
    shell.held = {"inner/z"}
    shell.exits("inner/y")
    shell.exits("inner/x")
    shell.held.clear()

    lines = shell.stopped("inner/z")

    assert "down inner crash" in lines
    assert shell.running() == "root inner inner/x inner/y inner/z"


def test_the_same_seed_gives_the_same_delays() -> None:
    def delays() -> list[float]:
        shell = running(supervisor("a", intensity=9, backoff=Backoff(jitter=0.5)))
        for _ in range(6):
            shell.exits("a")
            shell.passes(1.0)
        return [effect.at for effect in shell.effects if hasattr(effect, "at")]

    assert delays() == delays()
    assert len(set(delays())) == 5
