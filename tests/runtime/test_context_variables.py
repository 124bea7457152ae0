"""Context variables that one handler sets are not those of another."""

from __future__ import annotations

from contextvars import ContextVar

import pytest

from ether import Agent, AsyncAgent, Runtime, capability
from ether.testing import TestRuntime

WHO: ContextVar[int] = ContextVar("who", default=-1)


def before(number: int) -> int:
    """What was set before this call."""
    found = WHO.get()
    WHO.set(number)
    return found


class Coroutines(Agent):
    """Its handlers run as tasks of the event loop."""

    @capability("context.set")
    async def set(self, number: int) -> int:
        return before(number)


class InLoop(AsyncAgent):
    """So do the turns in which they begin."""

    @capability("context.set")
    async def set(self, number: int) -> int:
        return before(number)


class PlainInLoop(AsyncAgent):
    """A plain handler that runs in the event loop itself."""

    @capability("context.set")
    def set(self, number: int) -> int:
        return before(number)


class Plain(Agent):
    """A plain handler in a thread of the pool."""

    @capability("context.set")
    def set(self, number: int) -> int:
        return before(number)


@pytest.mark.parametrize("bus_type", [Runtime, TestRuntime])
@pytest.mark.parametrize("kind", [Coroutines, InLoop, PlainInLoop, Plain])
def test_what_a_handler_sets_is_not_there_for_the_next(kind: type[Agent], bus_type: type[Runtime]):
    with bus_type() as bus:
        bus.start(kind)
        handles = [bus.delegate("context.set", {"number": number}) for number in range(100)]
        found = {handle.result().data for handle in handles}

    assert found == {-1}
