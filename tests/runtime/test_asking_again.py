"""A broker that does not know the session any more answers nothing by that: what was asked of it is asked again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ether.testing import ManualClock, MemoryBroker
from ether.testing.simulator import World
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.observers.observer import Observer
from ether_broker.errors import BrokerUnavailable
from ether_broker.timing import DEFAULT_TIMING


class Echo(Agent):
    @capability("echo.say")
    def say(self, text: str) -> str:
        return text


class Bus:
    """A node, and a broker that forgets it."""

    def __init__(self) -> None:
        self.world = World(ManualClock(0.0))
        self.node, self.link = self.world.join("n")
        self.world.advance(
            2.0
        )  # what was said so far is acknowledged: what is asked next is what the broker hears first

    def give_up(self) -> None:
        """The broker hears nothing of the node for too long."""
        self.link.cut()
        self.world.advance(DEFAULT_TIMING.silence + 1.0)
        self.link.mend()

    def start_anew(self) -> None:
        """Another broker, which knows nobody, has the address."""
        broker = self.world.broker = MemoryBroker(self.world.clock)
        self.link._server = broker.server
        broker.server.attach(self.link)

    def start_anew_before_it_answers(self) -> None:
        """The broker dies after it has taken and acknowledged what comes next; the node's heartbeat meets another one."""

        def die() -> None:
            self.link._channel.acknowledge(self.link._channel.last)
            self.start_anew()
            self.node._session.show_life({})

        self.world.broker._transmit = die  # type: ignore[method-assign]

    @property
    def agents(self) -> set[bytes]:
        """Those that the broker has."""
        return {
            name for session in self.world.broker.supervisor.state.session_table.sessions for name in session.agents
        }


WAYS = pytest.mark.parametrize("forget", [Bus.give_up, Bus.start_anew, Bus.start_anew_before_it_answers])


@WAYS
def test_agents_that_a_broker_without_the_session_is_told_of_are_registered_in_the_next(forget: Callable[[Bus], None]):
    bus = Bus()
    forget(bus)

    bus.node.agent_host.start_agents(["echo"], Echo, Echo)

    assert bus.agents == {b"n", b"echo"}


@WAYS
def test_an_observer_that_a_broker_without_the_session_is_asked_for_gets_what_passes_the_next(
    forget: Callable[[Bus], None],
):
    bus, observer = Bus(), Observer()
    forget(bus)

    bus.node.observers.observe(observer, 0)

    before = observer.position
    bus.node.agent_host.start_agents(["echo"], Echo, Echo)
    bus.world.run()
    assert observer.position > before


def test_a_broker_that_answers_nothing_in_time_is_told_as_one_that_may_be_there_later():
    bus, observer = Bus(), Observer()
    bus.link.cut()

    with pytest.raises(BrokerUnavailable, match="it may be restarting: try again"):
        bus.node.agent_host.start_agents(["echo"], Echo, Echo)
    with pytest.raises(BrokerUnavailable, match="try again"):
        bus.node.observers.observe(observer, 0)

    assert bus.node.agent_host.cells == []
    assert bus.node.observers.observing(observer) is None
