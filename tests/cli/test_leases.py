"""`ether leases`."""

from __future__ import annotations

import threading

from ether import Agent, Runtime, Task, capability
from tests.cli.command import Command, table
from tests.support import wait_until


class Holder(Agent):
    """Holds a lease until the test lets go."""

    max_concurrency = 2

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.gate = gate

    @capability("test.hold")
    def hold(self, task: Task) -> None:
        with task.lease(resource="database:customers"):
            self.gate.wait(20.0)


def test_leases_are_listed_with_who_holds_them_and_who_waits(own: Command, own_bus: Runtime) -> None:
    gate = threading.Event()
    own_bus.start(Holder, gate)
    handles = [own_bus.delegate("test.hold") for _ in range(2)]
    wait_until(lambda: any(lease["waiting"] for lease in own_bus.leases()), what="the second waits")

    head, row = table(own("leases"))
    (told,) = own("leases", "-o", "json").json
    gate.set()

    assert head[:3] == ["RESOURCE", "AGENT", "NODE"]
    assert (row[:3], row[-1]) == (["database:customers", "holder", "host"], "holder")
    assert (told["resource"], told["request_id"]) == ("database:customers", handles[0].id)
    assert [claim["request_id"] for claim in told["waiting"]] == [handles[1].id]
    assert all(handle.result(10.0).ok for handle in handles)
    assert own("leases", "-o", "json").json == []


def test_without_a_bus_there_is_nothing_to_list(alone: Command) -> None:
    assert alone("leases").code == 3
