"""The outcomes for which a node asks again: when, which, and what becomes of a RESUME that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ether import Agent, Runtime, Status, capability
from ether.node.delegations.awaited_outcomes import AwaitedOutcomes
from ether.testing import TestRuntime
from ether_actors.supervisor.membership import outcome_replay
from ether_broker.envelope.payload import unpack
from ether_broker.wire.frame import Kind, read_header

IDS = [number.to_bytes(16) for number in range(1, 2_501)]


class Said:
    """What is sent: the link's part of a sender."""

    def __init__(self) -> None:
        self.envelopes: list[bytes] = []

    def send(self, envelope: bytes) -> None:
        self.envelopes.append(envelope)

    def took(self) -> list[tuple[bytes, list[bytes]]]:
        """(token, ids) of the RESUMEs since the last look."""
        said, self.envelopes = self.envelopes, []
        headers = [read_header(envelope) for envelope in said]
        assert all(header.kind == Kind.RESUME for header in headers)
        return [
            (header.request_id, unpack(envelope[header.body :])["awaiting"])
            for header, envelope in zip(headers, said, strict=True)
        ]


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def pending() -> set[bytes]:
    return set(IDS)


@pytest.fixture
def awaited(said: Said, pending: set[bytes]) -> AwaitedOutcomes:
    tokens: Iterator[int] = iter(range(1_000_000, 2_000_000))
    sender: Any = said
    return AwaitedOutcomes(sender, lambda: next(tokens).to_bytes(16), pending)


def tick(awaited: AwaitedOutcomes, times: int) -> None:
    for _ in range(times):
        awaited.ticked()


def test_they_are_asked_for_some_ticks_after_the_session_began_unless_they_have_come(
    awaited: AwaitedOutcomes, said: Said, pending: set[bytes]
) -> None:
    awaited.begin(list(IDS))
    assert not awaited.may_come(IDS[0], 0.0), "none has come"
    awaited.came(IDS[1], 7.0)
    assert awaited.may_come(IDS[0], 16.9)
    assert not awaited.may_come(IDS[0], 17.0)
    assert not awaited.may_come(IDS[1], 16.9)
    awaited.gave_up(IDS[0])
    assert not awaited.may_come(IDS[0], 16.9)
    assert awaited.is_waiting
    tick(awaited, 2)
    assert said.took() == []
    pending.discard(IDS[0])
    tick(awaited, 1)

    assert [ids for _, ids in said.took()] == [IDS[1:1_001], IDS[1_001:2_001], IDS[2_001:]]
    assert not awaited.is_waiting


def test_what_is_refused_is_asked_for_again_however_late_and_nothing_else(
    awaited: AwaitedOutcomes, said: Said, pending: set[bytes]
) -> None:
    awaited.ask(list(IDS))
    first, second, _ = said.took()
    tick(awaited, 1_000)
    assert said.took() == []

    assert awaited.refused(second[0])
    assert not awaited.refused(second[0])
    assert not awaited.refused(b"of another RESUME")
    pending.discard(second[1][0])
    tick(awaited, 49)
    assert said.took() == []
    tick(awaited, 1)
    ((_, again),) = said.took()
    assert again == second[1][1:]
    assert awaited.refused(first[0])


def test_what_has_come_is_forgotten_and_so_is_what_a_session_before_had_asked(
    awaited: AwaitedOutcomes, said: Said, pending: set[bytes]
) -> None:
    awaited.ask(list(IDS))
    ((first, _), (second, _), _) = said.took()
    pending.difference_update(IDS[:1_000])
    tick(awaited, 50)
    assert not awaited.refused(first)
    assert len(awaited._asked) == 2

    awaited.begin([IDS[1_500], b"of before".ljust(16)])
    assert not awaited.refused(second)
    tick(awaited, 3)
    assert [ids for _, ids in said.took()] == [[IDS[1_500], *IDS[1_000:1_500], *IDS[1_501:2_000]], IDS[2_000:]]


class Counter(Agent):
    @capability("text.count")
    def count(self, text: str) -> int:
        return len(text.split())


def test_who_takes_up_what_another_thread_takes_up_has_its_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime() as bus:
        outgoing = bus.node.outgoing
        make, others = outgoing.resources.handle_type, list[Any]()

        def make_beside_another(*args: Any) -> Any:
            if not others:
                others.append(None)
                others[:] = outgoing.take_up([(IDS[0], "", None)])
            return make(*args)

        monkeypatch.setattr(outgoing.resources, "handle_type", make_beside_another)
        (handle,) = outgoing.take_up([(IDS[0], "", None)])
        assert handle is others[0]
        assert handle.result(10.0).error is not None


def test_what_is_waited_for_already_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime() as bus:
        outgoing, asked = bus.node.outgoing, list[list[bytes]]()
        monkeypatch.setattr(outgoing.awaited, "ask", asked.append)
        first = outgoing.take_up([(IDS[0], "", 60.0)])
        assert outgoing.take_up([(IDS[0], "", 60.0), (IDS[1], "", None)])[:1] == first
        assert asked == [[IDS[0]], [IDS[1]]]


@pytest.mark.parametrize("left", [None, 5.0], ids=["ended", "open when it was listed"])
def test_what_was_taken_up_has_time_while_others_come(monkeypatch: pytest.MonkeyPatch, left: float | None) -> None:
    with TestRuntime() as bus:
        bus.start(Counter)
        outgoing = bus.node.outgoing
        ask = outgoing.awaited.ask
        monkeypatch.setattr(outgoing.awaited, "ask", outgoing.awaited.missing.update)  # the broker is slow
        slow, *others = outgoing.take_up([(request_id, "", left) for request_id in IDS[:6]])
        for other in others:
            bus.advance(4.0)
            ask([other.key])
            outgoing.flush()
            error = other.result().error
            assert error is not None
            assert error.code == "broker_lost"
        assert not slow.done
        for _ in range(3):
            bus.advance(5.0)
            assert bus.delegate("text.count", {"text": "one"}).result().data == 1, "which was not asked for again"
        error = slow.outcome().error
        assert error is not None
        assert error.code == "broker_unreachable"


def test_what_is_collected_comes_though_the_broker_takes_long_and_lets_few_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome_replay, "MOST_AWAITED", 1_000)
    url = f"ipc://{tmp_path}/bus.sock"
    with Runtime(bind=url, journal=tmp_path / "bus.db") as bus:
        bus.start(Counter)
        with Runtime.connect(url, name="asking") as asking:
            handles = [asking.delegate("text.count", {"text": "two words"}) for _ in range(1_500)]
            ids = [handle.id for handle in handles]
            assert {handle.result(30.0).status for handle in handles} == {Status.COMPLETED}
        with Runtime.connect(url, name="asking") as asking:
            collected = asking.collect(ids)
            assert {handle.result(60.0).data for handle in collected} == {2}


def test_what_has_come_is_not_taken_for_missing_in_the_next_session(
    awaited: AwaitedOutcomes, said: Said, pending: set[bytes]
) -> None:
    awaited.begin(list(IDS))
    tick(awaited, 3)
    for request_id in IDS[1:]:
        pending.discard(request_id)
        awaited.came(request_id, 1.0)
    awaited.begin(list(pending))
    assert awaited.missing == pending == {IDS[0]}

    awaited.missing.add(b"gone".ljust(16))  # such as of two threads at once
    tick(awaited, 50)
    assert awaited.missing == {IDS[0]}
