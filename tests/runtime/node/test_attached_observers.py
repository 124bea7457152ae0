"""Observers over a lost session: what a broker refuses that is asked again for them."""

from __future__ import annotations

import logging

import pytest

from ether import Agent, Observation, Observer, Runtime, capability
from ether.testing import TestRuntime
from ether_broker.errors import AccessDenied
from ether_broker.security.access_list import Access


class Worker(Agent):
    @capability("work.do")
    def do(self) -> None:
        """Do it."""


class Watcher(Observer):
    def __init__(self) -> None:
        self.seen: list[int] = []
        self.gaps: list[tuple[int, int]] = []

    def on_response(self, observation: Observation) -> None:
        self.seen.append(observation.number)

    def on_gap(self, first: int, last: int) -> None:
        self.gaps.append((first, last))


def lose_session(bus: TestRuntime, other: Runtime) -> None:
    """Cut a node off until it is lost, and let it come back."""
    other.link.cut()
    bus.advance(8.0)
    other.link.mend()
    bus.advance(8.0)


def test_an_observer_that_a_broker_has_no_room_for_is_asked_for_until_it_has(
    caplog: pytest.LogCaptureFixture,
):
    with TestRuntime() as bus, bus.join("other") as other:
        bus.start(Worker)
        watcher = other.observe(Watcher())
        bus.ask("work.do")
        bus.run()
        before = len(watcher.seen)
        assert before >= 1
        memory = bus._world.broker.supervisor.state.memory
        memory._most, most = 0, memory._most

        with caplog.at_level(logging.WARNING, "ether.node"):
            lose_session(bus, other)
        said = [record.message for record in caplog.records if "sees nothing" in record.message]
        assert len(said) == 1, "it is asked for each second, and told once"
        assert said[0].startswith(
            "the observer Watcher sees nothing: What node 'other' or others of its key have at the broker"
        )
        bus.ask("work.do")
        bus.run()
        assert len(watcher.seen) == before

        memory._most = most
        bus.advance(3.0)
        bus.ask("work.do")
        bus.run()
        assert len(watcher.seen) == before + 2
        assert watcher.gaps == []

        memory._most = 0
        caplog.clear()
        with caplog.at_level(logging.WARNING, "ether.node"):
            lose_session(bus, other)
        assert len([record for record in caplog.records if "sees nothing" in record.message]) == 1, "once for each time"
        memory._most = most


def test_an_observer_that_the_access_list_hides_the_bus_from_by_now_is_told(caplog: pytest.LogCaptureFixture):
    with TestRuntime() as bus, bus.join("other") as other:
        other.observe(Watcher())
        state = bus._world.broker.supervisor.state
        state.access = Access(delegate=[], observe=[], register=[])

        with caplog.at_level(logging.WARNING, "ether.node"):
            lose_session(bus, other)
        said = [record.message for record in caplog.records if "sees nothing" in record.message]
        assert said == [
            "the observer Watcher sees nothing: The node 'other' may not observe: the access list does not have it."
        ]
        with pytest.raises(AccessDenied):
            other.observe(Watcher())
