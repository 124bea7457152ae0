"""Doubles for the tests of your agents: no sockets, no waiting, and the same order of events in every run.

    from ether.testing import Probe, TestRuntime

    with TestRuntime() as bus:
        probe = bus.observe(Probe())
        bus.start(Researcher)
        response = bus.delegate("research.context.deepen", {"name": "ZeroMQ"}).result()
        assert probe.sequence() == […]

    TestRuntime     a Runtime that moves when it is told to: run(), advance(seconds), result()
    Probe           an observer that records what passed, and waits for what should; for a real Runtime too
    ManualClock     a clock that stands until it is told to move
    MemoryBroker    the broker in memory, and MemoryLink the way to it: for tests of what speaks the protocol
    Stalled         raised where waiting would last for ever

docs/testing.md shows them at work.

May import: `node`, `node.delegations`, `runtime`, the layers below.
Used by: none.
"""

from __future__ import annotations

from ether.testing.memory_broker import MemoryBroker, MemoryLink
from ether.testing.runtime_double import TestRuntime
from ether.testing.simulator import Stalled
from ether_actors.observers.probe import Probe
from ether_broker.clock import ManualClock

__all__ = ["ManualClock", "MemoryBroker", "MemoryLink", "Probe", "Stalled", "TestRuntime"]
