"""A lease as handlers see it, on a bus that moves when it is told to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ether.testing import TestRuntime
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import Task
from ether_broker.envelope.delegation import Budget
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import (
    Cancelled,
    Closed,
    LeaseDeadlock,
    LeaseHeld,
    LeaseLost,
    TooManyLeases,
    UsageError,
)


class Writer(Agent):
    """Does as the test says: each capability calls what the test gave under its name."""

    max_concurrency = 8

    def __init__(self, **calls) -> None:
        super().__init__()
        self.calls = calls

    @capability("do.plain")
    def plain(self, task: Task, name: str = "plain"):
        return self.calls[name](task)

    @capability("do.awaited")
    async def awaited(self, task: Task, name: str = "awaited"):
        return await self.calls[name](task)


def run(call, **options) -> Response:
    """Delegate to a plain handler that is `call`, and return the outcome."""
    with TestRuntime() as bus:
        bus.start(Writer, plain=call)
        return bus.delegate("do.plain", **options).result()


def run_awaited(call) -> Response:
    with TestRuntime() as bus:
        bus.start(Writer, awaited=call)
        return bus.delegate("do.awaited").result()


def test_a_lease_is_held_in_its_block_and_by_nobody_after_it(tmp_path: Path):
    seen: list[object] = []

    def work(task: Task) -> None:
        lease = task.lease(tmp_path / "a.md")
        seen.append(lease.is_held)
        with lease as entered:
            seen.extend([entered is lease, lease.is_held, lease.token > 0, lease.path == tmp_path / "a.md"])
            lease.check()
        seen.append(lease.is_held)
        with pytest.raises(LeaseLost, match="was released"):
            lease.check()
        with pytest.raises(LeaseLost, match="was released"):
            lease.write("late")

    assert run(work).ok
    assert seen == [False, True, True, True, True, False]
    assert not (tmp_path / "a.md").exists()


def test_an_async_handler_enters_checks_and_writes_too(tmp_path: Path):
    async def work(task: Task) -> Response:
        async with task.lease(tmp_path / "a.md") as lease:
            await lease.check_async()
            artifact = lease.write("# A\n")
        with pytest.raises(LeaseLost):
            await lease.check_async()
        return task.respond(artifacts=[artifact])

    response = run_awaited(work).unwrap()

    assert response.artifacts[0].read() == b"# A\n"
    assert response.artifacts[0].size == 4


def test_a_plain_with_in_the_event_loop_is_refused_and_holds_nothing(tmp_path: Path):
    async def work(task: Task) -> int:
        with pytest.raises(UsageError, match="event loop"), task.lease(tmp_path / "a.md"):
            pass
        async with task.lease(tmp_path / "a.md", wait=1.0):
            return 1

    assert run_awaited(work).data == 1


def test_writers_take_turns_in_the_order_in_which_they_came(tmp_path: Path):
    file = tmp_path / "list.md"

    async def work(task: Task) -> int:
        async with task.lease(file) as lease:
            before = file.read_text() if file.exists() else ""
            await asyncio.sleep(1.0)
            lease.write(f"{before}{task.delegation.objective}\n")
            return lease.token

    with TestRuntime() as bus:
        bus.start(Writer, awaited=work)
        handles = [bus.delegate("do.awaited", objective=word) for word in ("one", "two", "three")]
        bus.advance(0.5)
        assert len(bus.leases()[0]["waiting"]) == 2
        bus.advance(3.0)
        tokens = [handle.result().unwrap().data for handle in handles]

    assert file.read_text() == "one\ntwo\nthree\n"
    assert tokens == sorted(tokens)


def test_patience_ends_with_lease_held():
    async def hold(task: Task) -> None:
        async with task.lease(resource="db"):
            await asyncio.sleep(30.0)

    async def work(task: Task) -> list[str]:
        said = []
        for wait in (0, 2.0):
            try:
                async with task.lease(resource="db", wait=wait):
                    said.append("held")
            except LeaseHeld as error:
                said.append(str(error))
        return said

    with TestRuntime() as bus:
        bus.start(Writer, hold=hold, work=work)
        bus.delegate("do.awaited", {"name": "hold"})
        bus.run()
        waiting = bus.delegate("do.awaited", {"name": "work"})
        bus.advance(2.5)
        at_once, later = waiting.result().unwrap().data

    assert at_once.startswith("writer (delegation")
    assert later == "Waited 2.1 s for the lease on 'db'; writer holds it."


def test_two_handlers_that_wait_for_each_other_are_told():
    def order(first: str, second: str):
        async def work(task: Task) -> str:
            async with task.lease(resource=first):
                await asyncio.sleep(1.0)
                try:
                    async with task.lease(resource=second):
                        return "both"
                except LeaseDeadlock:
                    return "deadlock"

        return work

    with TestRuntime() as bus:
        bus.start(Writer, ab=order("a", "b"), ba=order("b", "a"))
        handles = [bus.delegate("do.awaited", {"name": name}) for name in ("ab", "ba")]
        bus.advance(2.0)

        assert sorted(handle.result().data for handle in handles) == ["both", "deadlock"]


def test_a_delegator_that_holds_the_file_is_a_deadlock_for_its_specialist(tmp_path: Path):
    def outer(task: Task) -> str:
        with task.lease(tmp_path / "a.md"):
            inner = task.delegate("do.plain", {"name": "inner"}).result()
        assert inner.error is not None
        return inner.error.code

    def inner(task: Task) -> None:
        with task.lease(tmp_path / "a.md"):
            pass

    with TestRuntime() as bus:
        bus.start(Writer, plain=outer, inner=inner)
        assert bus.delegate("do.plain").result().data == "lease_deadlock"


def test_a_handler_that_is_called_off_learns_it_and_writes_nothing_more(tmp_path: Path):
    file, seen = tmp_path / "a.md", []

    def slow(task: Task) -> None:
        with task.lease(file) as lease:
            lease.write("mine")
            task.delegate("do.awaited", {"name": "nap"}).result()
            seen.append(lease.is_held)
            with pytest.raises(LeaseLost, match="ended with its delegation"):
                lease.write("too late")

    async def nap(task: Task) -> None:
        await asyncio.sleep(60.0)

    async def next_one(task: Task) -> None:
        async with task.lease(file) as lease:
            lease.write("yours")

    with TestRuntime() as bus:
        bus.start(Writer, plain=slow, nap=nap, next=next_one)
        handle = bus.delegate("do.plain", timeout=5.0)
        waiting = bus.delegate("do.awaited", {"name": "next"}, timeout=50.0)
        bus.advance(6.0)
        assert handle.result().status is Status.TIMEOUT
        assert waiting.result().ok

    assert seen == [False]
    assert file.read_text() == "yours"


def test_an_async_handler_that_is_cancelled_while_it_waits_leaves_the_line():
    async def hold(task: Task) -> None:
        async with task.lease(resource="db"):
            await asyncio.sleep(5.0)

    async def impatient(task: Task) -> str:
        try:
            async with asyncio.timeout(1.0):
                async with task.lease(resource="db"):
                    return "held"
        except TimeoutError:
            pass
        await asyncio.sleep(10.0)
        return "left"

    with TestRuntime() as bus:
        bus.start(Writer, hold=hold, impatient=impatient)
        bus.delegate("do.awaited", {"name": "hold"})
        bus.run()
        handle = bus.delegate("do.awaited", {"name": "impatient"})
        bus.advance(2.0)
        assert bus.leases()[0]["waiting"] == []
        bus.advance(4.0)
        assert bus.leases() == []
        bus.advance(10.0)
        assert handle.result().data == "left"


def test_a_file_that_cannot_be_entered_leaves_its_lease_to_others(tmp_path: Path):
    (tmp_path / "plain").write_text("no directory")
    seen: list[object] = []

    def work(task: Task) -> None:
        with pytest.raises(OSError), task.lease(tmp_path / "plain" / "a.md"):
            pass
        task.delegate("do.plain", {"name": "look"}).result()

    with TestRuntime() as bus:
        bus.start(Writer, plain=work, look=lambda _task: seen.append(bus.leases()))
        assert bus.delegate("do.plain").result().ok
    assert seen == [[]]


def test_a_lease_that_another_has_by_now_is_found_lost(tmp_path: Path):
    """As after a node was believed lost, and goes on."""

    def work(task: Task) -> int:
        with task.lease(resource="db") as lease:
            task.ask_bus("ether.release", {"token": lease.token}, 1.0).result().unwrap()
            with pytest.raises(LeaseLost):
                lease.check()  # nobody has it
            with task.lease(resource="db") as other:
                with pytest.raises(LeaseLost):
                    lease.check()
                other.check()
                return other.token - lease.token

    assert run(work).data > 0


def test_a_lease_costs_nothing_of_the_budget():
    def work(task: Task) -> float | None:
        with task.lease(resource="db"):
            left = task.budget.remaining
            assert left is not None
            return left.max_cost

    assert run(work, budget=Budget(max_cost=3.0)).data == 3.0


def test_the_claim_of_an_ended_delegation_is_cancelled():
    async def hold(task: Task) -> None:
        async with task.lease(resource="db"):
            await asyncio.sleep(50.0)

    errors: list[BaseException] = []

    def work(task: Task) -> None:
        try:
            with task.lease(resource="db"):
                pass
        except Cancelled as error:
            errors.append(error)

    with TestRuntime() as bus:
        bus.start(Writer, hold=hold, plain=work)
        bus.delegate("do.awaited", {"name": "hold"})
        bus.run()
        handle = bus.delegate("do.plain")
        bus.run()
        handle.cancel()
        bus.advance(1.0)

    assert len(errors) == 1


def test_too_many_leases_are_refused(monkeypatch: pytest.MonkeyPatch):
    def work(task: Task) -> str:
        with task.lease(resource="a"), pytest.raises(TooManyLeases), task.lease(resource="b"):
            pass
        return "refused"

    with TestRuntime() as bus:
        monkeypatch.setattr(bus._world.broker.supervisor.lease_service.leases, "_most", 1)
        bus.start(Writer, plain=work)
        assert bus.delegate("do.plain").result().data == "refused"


def test_one_file_has_one_lease_by_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    def work(task: Task) -> set[str]:
        names = ["real/a.md", "link/a.md", "./real/../real/a.md", b"real/a.md", tmp_path / "link" / "a.md"]
        return {task.lease(name).resource for name in names}

    assert run(lambda task: sorted(work(task))).data == [str(tmp_path.resolve() / "real" / "a.md")]


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((), {}, "either a path"),
        (("a.md",), {"resource": "a"}, "either a path"),
        (("a.md",), {"wait": -1.0}, "0 or more"),
        (("a.md",), {"wait": float("nan")}, "0 or more"),
        (("a.md",), {"wait": "5"}, r"lease\(wait='5'\): seconds of patience, 0 or more"),
        (("a.md",), {"wait": True}, r"lease\(wait=True\): seconds of patience, 0 or more"),
        (("",), {}, "resource='NAME'"),
        (("a\0b",), {}, "resource='NAME'"),
        ((7,), {}, "resource='NAME'"),
        (("/",), {}, "is a directory"),
    ],
)
def test_what_can_be_no_lease_is_said_before_anything_is_sent(arguments, options, match):
    def work(task: Task) -> None:
        with pytest.raises(UsageError, match=match):
            task.lease(*arguments, **options)

    assert run(work).ok


def test_a_lease_on_no_file_has_no_path_and_writes_nothing():
    def work(task: Task) -> None:
        with task.lease(resource="db") as lease:
            with pytest.raises(UsageError, match="on no file"):
                _ = lease.path
            with pytest.raises(UsageError, match="on no file"):
                lease.write("x")

    assert run(work).ok


def test_a_lease_has_no_token_before_and_is_entered_once(tmp_path: Path):
    def work(task: Task) -> list[str]:
        lease = task.lease(resource="db")
        shown = [repr(lease)]
        with pytest.raises(UsageError, match="until then"):
            _ = lease.token
        with lease:
            shown.append(repr(lease))
        with pytest.raises(UsageError, match="entered before"), lease:
            pass
        return [*shown, repr(lease)]

    assert run(work).data == ["<Lease db not entered>", "<Lease db held>", "<Lease db over>"]


def test_a_lease_whose_directory_cannot_be_made_is_given_back(tmp_path: Path):
    (tmp_path / "file").touch()

    def work(task: Task) -> int:
        with pytest.raises(OSError), task.lease(tmp_path / "file" / "a.md"):
            pass
        with task.lease(resource=str(tmp_path / "file" / "a.md"), wait=0):
            return 1

    assert run(work).data == 1


def test_after_the_handler_and_off_the_bus_there_are_no_leases():
    kept: list[Task] = []
    run(kept.append)

    with pytest.raises(Closed):
        kept[0].lease("a.md")
    with pytest.raises(UsageError, match="off the bus"):
        Task(kept[0].delegation, "a", None, None).lease("a.md")
