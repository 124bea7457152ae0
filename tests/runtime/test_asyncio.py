"""The runtime in an event loop of its user's: opened, awaited, followed, cancelled, and never blocked unsaid."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import types
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ether import (
    Agent,
    Cluster,
    ClusterSpec,
    NodeSpec,
    Runtime,
    Status,
    Task,
    UsageError,
    WaitTimeout,
    as_completed,
    capability,
)
from ether.testing import Stalled, TestRuntime
from tests.support import wait_until

PATIENCE = 20.0


class Worker(Agent):
    max_concurrency = 50

    @capability("work.echo")
    def echo(self, n: int) -> int:
        return n

    @capability("work.wait")
    async def wait(self) -> None:
        await asyncio.sleep(3 * PATIENCE)

    @capability("work.steps")
    async def steps(self, task: Task) -> int:
        for step in range(3):
            task.progress(step / 3)
        return 3


class Reader(Agent):
    @capability("read.notes")
    def read(self, task: Task, path: str) -> str:
        if Path(path).name == "none":
            raise FileNotFoundError(path)
        return task.artifact(path).read().decode()


@asynccontextmanager
async def opened(kind: str, tmp_path: Any) -> AsyncIterator[Runtime]:
    """A runtime of each kind, with its worker."""
    if kind == "double":
        with TestRuntime() as double:
            double.start(Worker)
            yield double
        return
    async with Runtime(drain=0.0, bind=f"ipc://{tmp_path}/bus" if kind == "joined" else None) as bus:
        bus.start(Worker)
        if kind == "embedded":
            yield bus
            return
        async with Runtime.connect(bus.url, drain=0.0) as other:
            yield other


KINDS = pytest.mark.parametrize("kind", ["embedded", "joined", "double"])
REAL = pytest.mark.parametrize("kind", ["embedded", "joined"])


@KINDS
def test_it_is_awaited_followed_and_collected(kind: str, tmp_path: Any) -> None:
    async def main() -> None:
        async with opened(kind, tmp_path) as bus:
            assert (await bus.delegate("work.echo", {"n": 1})).data == 1
            several = await asyncio.gather(*(bus.delegate("work.echo", {"n": n}) for n in range(5)))
            assert [response.data for response in several] == list(range(5))
            said = [response.status async for response in bus.delegate("work.steps").stream()]
            assert said == [Status.ACCEPTED, *[Status.PROGRESS] * 3, Status.COMPLETED] or said[-1] is Status.COMPLETED
            handles = [bus.delegate("work.echo", {"n": n}) for n in range(20)]
            found = [handle.outcome().data async for handle in as_completed([*handles, handles[0]], PATIENCE)]
            assert sorted(found) == list(range(20))
            assert [handle async for handle in as_completed([])] == []

    asyncio.run(main())


@REAL
def test_a_task_that_is_cancelled_cancels_what_it_awaits_or_follows(kind: str, tmp_path: Any) -> None:
    async def follow(handle: Any) -> None:
        async for _ in handle.stream():
            pass

    async def main() -> None:
        async with opened(kind, tmp_path) as bus:
            for wait in (lambda handle: handle, follow):
                handle = bus.delegate("work.wait")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(wait(handle), 0.05)
                assert (await asyncio.wait_for(handle, PATIENCE)).status is Status.CANCELLED

            kept = bus.delegate("work.wait")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(kept), 0.05)
            with pytest.raises(WaitTimeout, match=r"1 delegations had no outcome after 0\.05 s"):
                [handle async for handle in as_completed([kept], 0.05)]
            assert not kept.done

    asyncio.run(main())


@REAL
def test_a_call_that_would_block_the_loop_is_refused_and_says_what_to_do(kind: str, tmp_path: Any) -> None:
    async def main() -> None:
        async with opened(kind, tmp_path) as bus:
            kept = bus.delegate("work.wait")
            for block in (
                kept.result, lambda: bus.ask("work.echo", {"n": 1}), lambda: next(iter(kept.stream())),
                lambda: next(iter(as_completed([kept]))),
            ):  # fmt: skip
                with pytest.raises(UsageError, match="`await` the handle"):
                    block()
            assert not kept.done
            done = bus.delegate("work.echo", {"n": 7})
            await done
            assert done.result().data == 7  # which waits for nothing
            assert [agent["agent"] for agent in bus.agents()] == ["worker"]  # answered by the bus at once
            assert await asyncio.to_thread(lambda: bus.delegate("work.echo", {"n": 8}).result(PATIENCE).data) == 8

    asyncio.run(main())


@KINDS
def test_what_asyncio_wraps_takes_handles_and_its_wait_refuses_them(kind: str, tmp_path: Any) -> None:
    async def main() -> None:
        async with opened(kind, tmp_path) as bus:
            first, second, third, last = (bus.delegate("work.echo", {"n": n}) for n in range(4))
            assert [response.data for response in await asyncio.gather(first, second)] == [0, 1]
            assert (await asyncio.wait_for(third, PATIENCE)).data == 2
            assert (await asyncio.shield(last)).data == 3
            handles = [bus.delegate("work.echo", {"n": n}) for n in range(3)]
            assert sorted([(await each).data for each in asyncio.as_completed(handles)]) == [0, 1, 2]
            futures = [asyncio.ensure_future(bus.delegate("work.echo", {"n": n})) for n in range(3)]
            done, pending = await asyncio.wait(futures)
            assert sorted(future.result().data for future in done) == [0, 1, 2]
            assert not pending
            for handle in (first, bus.delegate("work.echo", {"n": 9})):  # one that is done, and one under way
                with pytest.raises(UsageError, match=r"asyncio\.wait needs futures: asyncio\.ensure_future\(handle\)"):
                    await asyncio.wait_for(asyncio.wait([handle]), PATIENCE)  # type: ignore[type-var]
                with pytest.raises(UsageError, match=r"asyncio\.wait needs futures"):
                    handle.add_done_callback(functools.partial(asyncio.tasks._release_waiter, None))  # type: ignore[attr-defined]
                await handle

    asyncio.run(main())


def test_the_double_refuses_it_too() -> None:
    async def main() -> None:
        with TestRuntime() as bus:
            bus.start(Worker)
            handle = bus.delegate("work.echo", {"n": 1})
            with pytest.raises(UsageError, match="`await` the handle"):
                handle.result()
            assert (await handle).data == 1

    asyncio.run(main())


class Asking(Agent):
    bus: Any  # in place of its own, a runtime's

    @capability("asking.agents")
    async def agents(self) -> int:
        return len(self.bus.agents())


def test_what_waits_for_running_work_is_refused_in_a_loop_and_says_what_to_do() -> None:
    async def main(bus: Runtime, ref: Any) -> None:
        for stop in (lambda: bus.stop("worker"), lambda: bus.stop("worker", timeout=1.0), ref.stop):
            with pytest.raises(UsageError, match=r"await asyncio\.to_thread\(bus\.stop, 'worker'\)"):
                stop()
        with pytest.raises(UsageError, match=r"await asyncio\.to_thread\(bus\.stop_many, 'worker'\)"):
            bus.stop_many("worker")
        spec = ClusterSpec(nodes=[NodeSpec("n")])
        with pytest.raises(UsageError, match=r"await asyncio\.to_thread\(cluster\.reload, spec\)"):
            Cluster(spec).reload(spec)
        assert (await ref.delegate("work.echo", {"n": 1})).ok, "it was not stopped"
        bus.stop("worker", timeout=0)
        bus.start(Worker)
        await asyncio.to_thread(bus.stop, "worker")

    with Runtime() as bus:
        asyncio.run(main(bus, bus.start(Worker)))


@REAL
def test_a_question_to_the_bus_waits_neither_for_its_own_loop_nor_for_its_receiving_thread(
    kind: str, tmp_path: Any
) -> None:
    async def main() -> None:
        async with opened(kind, tmp_path) as bus:
            Asking.bus = bus
            bus.start(Asking)
            refused = await bus.delegate("asking.agents")
            assert "waits in the event loop" in refused.error.message

            raised: list[str] = []
            told = asyncio.Event()
            loop = asyncio.get_running_loop()

            def ask(_handle: Any) -> None:
                try:
                    bus.agents()
                except UsageError as error:
                    raised.append(str(error))
                loop.call_soon_threadsafe(told.set)

            def stop(_handle: Any) -> None:
                for timeout in (5.0, 0):
                    try:
                        bus.stop("worker", timeout=timeout)
                    except UsageError as error:
                        raised.append(str(error))
                loop.call_soon_threadsafe(told.set)

            bus.delegate("work.steps").add_done_callback(ask)
            await asyncio.wait_for(told.wait(), PATIENCE)
            if kind == "joined":  # where callbacks run in the thread that receives
                assert "must not wait" in raised[0]
                raised.clear()
                told.clear()
                bus.delegate("work.steps").add_done_callback(stop)
                await asyncio.wait_for(told.wait(), PATIENCE)
                assert [text for text in raised if "must not wait" in text] == raised
                assert len(raised) == 2
                assert (await bus.delegate("work.echo", {"n": 1})).ok, "it was not stopped"

    asyncio.run(main())


@KINDS
def test_what_is_not_taken_in_time_is_given_by_the_next(kind: str, tmp_path: Any) -> None:
    async def main() -> None:
        async with opened(kind, tmp_path) as bus:
            slow, quick = bus.delegate("work.wait"), bus.delegate("work.echo", {"n": 1})
            both = as_completed([slow, quick])
            assert (await anext(both)) is quick
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(both), 0.05)
            slow.cancel()
            assert [handle async for handle in both] == [slow]
            assert [handle async for handle in both] == []

    asyncio.run(main())


def test_a_program_under_test_is_moved_on_by_another_task() -> None:
    async def app(bus: TestRuntime) -> Status:
        return (await bus.delegate("work.wait", timeout=100.0)).status

    async def main() -> None:
        with TestRuntime() as bus:
            bus.start(Worker)
            running = asyncio.create_task(app(bus))
            await asyncio.sleep(0)
            bus.advance(3 * PATIENCE + 1.0)
            assert await running is Status.COMPLETED

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(bus.delegate("work.wait", timeout=100.0), 0.05)
            with pytest.raises(Stalled):  # nobody moves the clock
                await bus.delegate("work.wait", timeout=100.0)

    asyncio.run(main())


def test_an_outcome_that_is_not_there_says_what_waits_for_it() -> None:
    with TestRuntime() as bus:
        bus.start(Worker)
        handle = bus.delegate("work.wait")
        with pytest.raises(UsageError, match=r"has no outcome yet: `.result\(\)` or `await` waits for it"):
            handle.outcome()


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_task_that_is_cancelled_while_it_opens_leaves_nothing_open(
    moment: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    opened = Runtime.open

    def slow(self: Runtime) -> Runtime:
        begun.set()
        goes_on.wait(PATIENCE)
        opened(self)
        ended.set()
        return self

    monkeypatch.setattr(Runtime, "open", slow)
    runtime = Runtime(bind=f"ipc://{tmp_path}/bus")

    async def main() -> None:
        opening = asyncio.create_task(runtime.__aenter__())
        await asyncio.sleep(0)
        while moment != "before" and not begun.is_set():
            await asyncio.sleep(0.001)
        if moment == "after":
            goes_on.set()
            ended.wait(PATIENCE)  # the loop has not heard of it
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        goes_on.set()

    asyncio.run(main())

    assert wait_until(lambda: ended.is_set() and runtime._node is None, PATIENCE)
    assert wait_until(lambda: not (tmp_path / "bus").exists(), PATIENCE)
    for thread in threading.enumerate():
        if thread.name == "ether-close":
            thread.join(PATIENCE)


def test_what_keeps_it_from_opening_is_raised() -> None:
    async def main() -> None:
        async with Runtime() as bus:
            with pytest.raises(UsageError, match="open already"):
                async with bus:
                    pass

    asyncio.run(main())


def test_an_error_within_it_does_not_wait_for_work() -> None:
    async def main() -> None:
        async with Runtime(drain=3 * PATIENCE) as bus:
            bus.start(Worker)
            bus.delegate("work.wait")
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_delegation_takes_its_course_while_another_thread_imports_asyncio_for_the_first_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Runtime() as bus, ThreadPoolExecutor(1) as beside:
        bus.start(Reader)
        (tmp_path / "notes").write_text("done")
        monkeypatch.setitem(sys.modules, "asyncio", types.ModuleType("asyncio"))  # which has none of its names yet

        read = bus.delegate("read.notes", {"path": str(tmp_path / "notes")}).result(PATIENCE)
        in_another_thread = beside.submit(bus.ask, "read.notes", {"path": str(tmp_path / "notes")}).result(PATIENCE)
        failed = bus.delegate("read.notes", {"path": str(tmp_path / "none")}).result(PATIENCE)

    assert read.data == in_another_thread.data == "done"
    assert failed.error is not None
    assert (failed.error.code, failed.error.message.split(":")[0]) == ("exception", "FileNotFoundError")
