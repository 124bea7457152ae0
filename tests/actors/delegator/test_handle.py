"""A handle alone: its owner is a stand-in, and the responses come from the test."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import Any

import pytest

from ether_actors.delegator.completions import as_completed
from ether_actors.delegator.handle import _LEAVES, Handle
from ether_actors.threads.loop_queue import LoopQueue
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import Failed, UsageError, WaitTimeout
from ether_broker.wire.codec import pack_delegation, pack_response
from ether_broker.wire.frame import Flag, Kind, mark, pack_envelope, read_header

PATIENCE = 10.0


class Owner:
    """What a handle needs of its node; waits for real."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.cancelled: list[Handle] = []
        self.flushed = 0
        self.refusal: Exception | None = None

    def cancel(self, handle: Handle) -> None:
        self.cancelled.append(handle)

    def flush(self) -> None:
        self.flushed += 1

    @staticmethod
    def call(call: Callable[[], object]) -> None:
        call()

    def check_may_wait(self, *, in_own_loop: bool = False) -> None:
        if self.refusal is not None:
            raise self.refusal

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.wait(PATIENCE if timeout is None else timeout)

    def take(self, queue: SimpleQueue[Any], timeout: float | None) -> Any:
        return queue.get(timeout=PATIENCE if timeout is None else timeout)

    async def take_in_loop(self, queue: LoopQueue[Any], timeout: float | None) -> Any:
        return await queue.get(PATIENCE if timeout is None else timeout)


def handle(owner: Owner | None = None, number: int = 1) -> Handle:
    request_id = number.to_bytes(16)
    delegation = Delegation(request_id=to_text(request_id), capability="x.y", from_agent="d", params={"n": number})
    return Handle(owner or Owner(), request_id, b"d", b"x.y", pack_delegation(delegation), 9.0)


def deliver(to: Handle, status: Status = Status.COMPLETED, data: Any = None, **fields: Any) -> bool:
    response = Response(request_id=to.id, status=status, from_agent="a", data=data, **fields)
    envelope = pack_response(response, capability=b"x.y", target=b"d")
    return to.deliver(read_header(envelope), envelope)


def test_it_is_done_with_its_outcome_and_not_before():
    mine = handle()
    assert not mine.done
    assert not deliver(mine, Status.ACCEPTED)
    assert not deliver(mine, Status.PROGRESS, progress=0.5)
    assert not mine.done

    assert deliver(mine, data=7)

    assert mine.done
    assert (mine.result().data, mine.result(0.0).status) == (7, Status.COMPLETED)
    assert mine.result() is mine.outcome()


def test_only_the_first_outcome_counts():
    mine = handle()
    deliver(mine, data="first")

    assert not deliver(mine, Status.FAILED_EXECUTION)
    mine.end(Response(request_id=mine.id, status=Status.CANCELLED))

    assert mine.result().data == "first"


def test_an_outcome_may_come_without_the_broker():
    mine = handle()

    mine.end(Response(request_id=mine.id, status=Status.TIMEOUT))

    assert mine.result().status is Status.TIMEOUT


def test_patience_may_end_and_begin_anew():
    mine = handle()
    with pytest.raises(WaitTimeout, match=r"x\.y .* had no outcome after 0\.0 s; it goes on"):
        mine.result(0.0)
    with pytest.raises(WaitTimeout):
        mine.result(-1.0)

    deliver(mine)

    assert mine.result(0.0).ok


def test_waiting_sends_what_was_kept_back_and_is_refused_where_it_would_wait_for_itself():
    owner = Owner()
    mine = handle(owner)
    with pytest.raises(WaitTimeout):
        mine.result(0.0)
    assert owner.flushed == 1

    owner.refusal = UsageError("not here")
    with pytest.raises(UsageError):
        mine.result()
    deliver(mine)
    assert mine.result().ok


@pytest.mark.parametrize("is_early", [False, True])
def test_nothing_is_called_with_the_owners_lock_as_the_collector_might_run_a_finalizer_that_waits(is_early: bool):
    class Prompt(Owner):
        def flush(self) -> None:
            if is_early:
                deliver(mine)

        def wait(self, event: threading.Event, timeout: float | None) -> bool:
            return is_early or deliver(mine)

    owner = Prompt()
    mine = handle(owner)
    called: list[str] = []

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and owner.lock._is_owned():  # type: ignore[attr-defined]  # of a lock in C
            called.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        response = mine.result()
    finally:
        sys.setprofile(None)

    assert response.status is Status.COMPLETED
    assert called == []


def test_all_who_wait_are_woken():
    mine = handle()
    seen: list[Response] = []
    waiting = [threading.Thread(target=lambda: seen.append(mine.result(PATIENCE))) for _ in range(4)]
    for thread in waiting:
        thread.start()

    deliver(mine, data="all")
    for thread in waiting:
        thread.join()

    assert [response.data for response in seen] == ["all"] * 4


def test_callbacks_are_called_once_when_it_ends_or_at_once_when_it_has():
    mine = handle()
    seen: list[str] = []
    mine.add_done_callback(lambda done: seen.append("before"))
    deliver(mine)
    deliver(mine)

    mine.add_done_callback(lambda done: seen.append("after"))

    assert seen == ["before", "after"]


def test_a_callback_may_read_the_outcome_and_add_another():
    mine = handle()
    seen: list[object] = []
    mine.add_done_callback(lambda done: done.add_done_callback(lambda again: seen.append(again.result().data)))

    deliver(mine, data=3)

    assert seen == [3]


def test_cancelling_asks_the_owner_until_it_is_done():
    owner = Owner()
    mine = handle(owner)
    mine.cancel()
    deliver(mine, Status.CANCELLED)
    mine.cancel()

    assert owner.cancelled == [mine]


def test_it_knows_what_was_sent():
    mine = handle(number=5)

    assert (mine.id, mine.delegation.params, mine.deadline) == (to_text((5).to_bytes(16)), {"n": 5}, 9.0)
    assert mine.delegation is mine.delegation
    assert repr(mine) == f"<Handle x.y {mine.id} running>"
    deliver(mine)
    assert "COMPLETED" in repr(mine)


# -- streams -----------------------------------------------------------------------------------------------------


def test_a_stream_gives_what_came_before_and_after_it_was_begun_and_last_the_outcome():
    mine = handle()
    deliver(mine, Status.ACCEPTED)
    stream = iter(mine.stream())
    assert next(stream).status is Status.ACCEPTED
    deliver(mine, Status.PROGRESS, progress=0.5)
    assert next(stream).progress == 0.5

    deliver(mine, data="end")

    assert [response.data for response in stream] == ["end"]


def test_a_stream_may_be_followed_after_the_end_and_by_several():
    mine = handle()
    deliver(mine, Status.PROGRESS, progress=0.1)
    deliver(mine)

    for _ in range(2):
        assert [response.status for response in mine.stream()] == [Status.PROGRESS, Status.COMPLETED]


def test_a_handle_that_nobody_follows_keeps_the_newest_updates():
    mine = handle()
    for number in range(1_500):
        deliver(mine, Status.PROGRESS, data=number)
    deliver(mine)

    seen = [response.data for response in mine.stream()]

    assert seen == [*range(500, 1_500), None]


def test_a_stream_that_is_left_hears_nothing_more():
    mine = handle()

    async def follow() -> None:
        async for response in mine.stream():
            assert response.progress == 0.5
            break

    deliver(mine, Status.PROGRESS, progress=0.5)
    for _ in range(5):
        assert next(iter(mine.stream())).progress == 0.5
        asyncio.run(follow())
        assert mine._listeners is None
    left, kept = iter(mine.stream()), iter(mine.stream())
    next(left), next(kept)
    left.close()
    deliver(mine)
    assert next(kept).ok


def test_a_stream_that_is_read_slowly_gives_the_newest_updates_and_then_the_outcome():
    mine = handle()
    stream = iter(mine.stream())
    deliver(mine, Status.PROGRESS, 0)
    assert next(stream).data == 0
    for number in range(1, 2_500):
        deliver(mine, Status.PROGRESS, number)
    deliver(mine, data="end")

    assert [response.data for response in stream] == [*range(1_500, 2_500), "end"]


def test_large_updates_that_nobody_takes_are_bounded_in_bytes():
    mine, large = handle(), "x" * 900_000
    stream = iter(mine.stream())
    deliver(mine, Status.PROGRESS, -1)
    assert next(stream).data == -1
    for number in range(30):
        deliver(mine, Status.PROGRESS, [number, large])
    deliver(mine, data="end")

    assert sum(len(envelope) for _, envelope in mine._updates.items) <= 8 << 20
    assert [response.data[0] for response in stream][:-1] == [*range(21, 30)]
    assert [response.data[0] for response in mine.stream()][:-1] == [*range(21, 30)]


def test_what_comes_while_a_stream_is_read_is_given_by_it():
    mine, seen = handle(), []
    deliver(mine, Status.PROGRESS, 0)
    for response in mine.stream():
        seen.append(response.data)
        if response.data in {0, 1, 2}:
            deliver(mine, Status.PROGRESS, response.data + 1)
        elif response.data == 3:
            deliver(mine, data="end")

    assert seen == [0, 1, 2, 3, "end"]


@pytest.mark.parametrize("reads", ["in a thread", "in a loop"])
def test_a_stream_gives_all_that_another_thread_brings(reads: str):
    mine, count = handle(), 900

    def bring() -> None:
        for number in range(count):
            deliver(mine, Status.PROGRESS, number)
        deliver(mine, data="end")

    async def read() -> list[object]:
        return [response.data async for response in mine.stream()]

    bringer = threading.Thread(target=bring)
    bringer.start()
    seen = asyncio.run(read()) if reads == "in a loop" else [response.data for response in mine.stream()]
    bringer.join()
    assert seen == [*range(count), "end"]


def test_a_stream_is_followed_in_an_event_loop():
    mine = handle()
    deliver(mine, Status.PROGRESS, progress=0.5)

    async def follow() -> list[Status]:
        seen = []
        async for response in mine.stream():
            seen.append(response.status)
            if response.status is Status.PROGRESS:
                threading.Timer(0.0, deliver, (mine,)).start()
        return seen

    assert asyncio.run(follow()) == [Status.PROGRESS, Status.COMPLETED]


# -- awaiting ----------------------------------------------------------------------------------------------------


def test_awaiting_gives_the_outcome_before_and_after_the_end():
    mine = handle()

    async def wait() -> list[Any]:
        threading.Timer(0.0, deliver, (mine, Status.COMPLETED, 4)).start()
        return [(await mine).data, (await mine).data]

    assert asyncio.run(wait()) == [4, 4]


def test_awaiting_does_not_block_the_event_loop():
    """While one awaits, the loop turns."""
    mine = handle()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        for _ in range(100):
            await asyncio.sleep(0)
            ticks += 1
        deliver(mine)

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        await mine
        await ticking

    asyncio.run(both())

    assert ticks == 100


def test_giving_up_awaiting_leaves_the_delegation_alone():
    mine = handle()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(_await(mine)), 0.01)
        deliver(mine)
        await asyncio.sleep(0)

    asyncio.run(give_up())

    assert mine.result().ok


async def _await(mine: Handle) -> Response:
    return await mine


# -- several -----------------------------------------------------------------------------------------------------


def test_handles_are_given_as_they_end_each_once():
    owner = Owner()
    one, two, three = (handle(owner, number) for number in (1, 2, 3))
    deliver(two)
    ended = as_completed([one, two, three, two])

    assert next(ended) is two
    deliver(three)
    assert next(ended) is three
    deliver(one)

    assert list(ended) == [one]


def test_patience_for_several_ends_for_all_of_them_together():
    one, two = handle(number=1), handle(number=2)
    deliver(one)
    ended = as_completed([one, two], timeout=0.01)

    assert next(ended) is one
    with pytest.raises(WaitTimeout, match="1 delegations had no outcome"):
        next(ended)


def test_none_at_all_is_over_at_once():
    assert list(as_completed([])) == []


def test_an_outcome_that_comes_after_its_loop_was_closed_wakes_nobody_and_harms_nobody():
    mine = handle()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_await(mine), 0.01)
        follower = aiter(mine.stream())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(follower), 0.01)

    asyncio.run(give_up())
    seen: list[Handle] = []
    mine.add_done_callback(seen.append)

    assert not deliver(mine, Status.ACCEPTED)
    assert deliver(mine, data=1)

    assert seen == [mine]


_UNREADABLE = {
    "nothing": b"",
    "a timestamp": b"\xd6\xff\x00\x00\x00\x01",
    "an extension": b"\xc7\x03\x05abc",
    "a map as a key": b"\x81\x80\x01",
    "no UTF-8": b"\xa2\xff\xfe",
    "no msgpack": b"\xc1",
    "a list that is not there": b"\xdd\xff\xff\xff\xff",
    "900 lists": b"\x91" * 900 + b"\xc0",
    "5,000 lists": b"\x91" * 5_000 + b"\xc0",
    "70,000 lists": b"\xdd\x00\x01\x11\x70" + b"\x90" * 70_000,
}
"""What a specialist of somebody else's may call its data."""


def _update(mine: Handle, status: Status, body: bytes) -> bool:
    envelope = pack_envelope(Kind.RESPONSE, request_id=mine.key, source=b"a", target=b"d", status=status, body=body)
    return mine.deliver(read_header(envelope), envelope)


@pytest.mark.parametrize("data", _UNREADABLE.values(), ids=_UNREADABLE)
def test_an_answer_whose_data_nobody_can_read_is_an_outcome_of_which_all_can_be_read(data: bytes):
    mine, waited = handle(), handle()
    for one in (mine, waited):
        assert _update(one, Status.COMPLETED, pack({"data": data, "elapsed": 1.0}))

    assert repr(mine).endswith("FAILED_EXECUTION>")
    for outcome in (mine.result(), asyncio.run(_await(waited))):
        assert (outcome.status, outcome.error.code) == (Status.FAILED_EXECUTION, "unreadable_response")
        assert outcome.data is None
        assert "unreadable_response" in repr(outcome)
        assert json.loads(outcome.model_dump_json())["from_agent"] == "a"
        assert hash(outcome) == hash(outcome)
        with pytest.raises(Failed):
            outcome.unwrap()


@pytest.mark.parametrize("body", [pack({"progress": float("nan")}), pack({"data": b"\xc1"}), b"\xc1"])
def test_a_sign_of_work_that_nobody_can_read_is_told_and_the_outcome_comes(body: bytes):
    mine = handle()
    assert not _update(mine, Status.PROGRESS, body)
    assert deliver(mine, data=1)

    sign, outcome = mine.stream()

    assert (sign.status, sign.error.code, sign.data) == (Status.PROGRESS, "unreadable_response", None)
    assert (outcome.status, outcome.data) == (Status.COMPLETED, 1)


@pytest.mark.parametrize(
    "body", [b"", b"\x91\x01", b"\x81\xa4data", b"\xc1", pack({"elapsed": float("nan")}), pack({"summary": 5})]
)
def test_an_answer_that_nobody_can_read_is_an_outcome_too(body: bytes):
    mine = handle()
    envelope = pack_envelope(
        Kind.RESPONSE,
        request_id=mine.key,
        source=b"a",
        target=b"d",
        capability=b"x.y",
        status=Status.COMPLETED,
        body=body,
    )
    assert mine.deliver(read_header(envelope), envelope)

    outcome = mine.result()
    assert (outcome.status, outcome.error.code) == (Status.FAILED_EXECUTION, "unreadable_response")
    assert outcome.from_agent == "a"


@pytest.mark.parametrize("answered", [None, "mine", "another"])
@pytest.mark.parametrize("given", [None, "mine"])
def test_every_response_has_the_external_id_that_the_delegator_gave_and_no_other(
    given: str | None, answered: str | None
):
    delegated, same = (Handle(Owner(), bytes(16), b"d", b"x.y", b"sent", 9.0, given) for _ in range(2))
    deliver(delegated, Status.PROGRESS, external_id=answered)
    deliver(delegated, external_id=answered)

    assert [response.external_id for response in delegated.stream()] == [given, given]

    other = Handle(Owner(), bytes(16), b"d", b"x.y", b"sent", 9.0, "other")
    delegated.share(same)
    delegated.share(other)
    assert (same.result().external_id, other.result().external_id) == (given, "other")


def test_what_was_taken_up_by_its_id_has_the_external_id_of_its_answer():
    taken_up = Handle(Owner(), bytes(16), b"d", b"x.y", b"", 9.0)
    deliver(taken_up, external_id="mine")

    assert taken_up.result().external_id == "mine"


def test_progress_that_is_sent_again_is_told_once_and_in_its_order() -> None:
    followed = handle()
    heard: list[Any] = []
    followed.listen(heard.append)

    def say(step: str, at: float, *, attempt: int = 1, again: bool = False, status: Status = Status.PROGRESS) -> None:
        response = Response(
            request_id=followed.id, status=status, from_agent="a", summary=step, attempt=attempt, timestamp=at
        )  # fmt: skip
        envelope = pack_response(response, capability=b"x.y", target=b"d")
        envelope = mark(envelope, Flag.RESENT) if again else envelope
        followed.deliver(read_header(envelope), envelope)

    count = []
    for step, at, options in (
        ("a", 0.0, {"status": Status.ACCEPTED}),
        ("b", 1.0, {}),
        ("c", 2.0, {}),
        ("a", 0.0, {"status": Status.ACCEPTED, "again": True}),
        ("b", 1.0, {"again": True}),
        ("c", 2.0, {"again": True}),
        ("d", 3.0, {"again": True}),
        ("e", 0.5, {"attempt": 2, "again": True}),
        ("d", 3.0, {"again": True}),
    ):
        say(step, at, **options)
        count.append(len(heard))

    assert count == [1, 2, 3, 3, 3, 3, 4, 5, 5]


@pytest.mark.parametrize(
    "leaf", [None, True, -1, 1 << 40, 1.5, "", "x" * 40, "x" * 70_000, b"", b"\x91" * 300, b"x" * 70_000]
)
def test_what_begins_neither_a_map_nor_a_list_is_known(leaf: object) -> None:
    assert pack(leaf)[:1] in _LEAVES


@pytest.mark.parametrize("tree", [{}, [], {"a": 1}, [1] * 20, dict.fromkeys(range(20)), [1] * 70_000])
def test_what_begins_a_map_or_a_list_is_known(tree: object) -> None:
    assert pack(tree)[:1] not in _LEAVES
