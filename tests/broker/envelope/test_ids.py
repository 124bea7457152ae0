from __future__ import annotations

import os
import threading
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope import ids
from ether_broker.envelope.ids import NO_ID, foreign_id, new_id, to_bytes, to_text
from tests.broker.strategies import texts


def milliseconds(request_id: bytes) -> int:
    return int.from_bytes(request_id[:6])


def test_an_id_is_a_uuid_of_version_7():
    # RFC 9562 §5.7: unix_ts_ms 48, ver 4, rand_a 12, var 2, rand_b 62
    before = int(time.time() * 1000)
    request_id = new_id()
    after = int(time.time() * 1000)

    assert len(request_id) == 16
    parsed = uuid.UUID(bytes=request_id)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert before - 1 <= milliseconds(request_id) <= after


def test_ids_rise_within_a_process():
    made = [new_id() for _ in range(20_000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_of_a_thousand_turns_of_the_counter_are_uuids(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ids.time, "time", lambda: 1_700_000_000.0)
    source = ids._Source()
    source.next()
    for count in (0xFFFFE, 0xFFFFF, 0xFFFFFFFE, 0xFFFFFFFF):
        source._count = count
        assert uuid.UUID(bytes=source.next()).version == 7
        assert uuid.UUID(bytes=source.next()).variant == uuid.RFC_4122


def test_ids_are_unique_among_threads():
    made: list[list[bytes]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def make(into: list[bytes]) -> None:
        start.wait(10)
        into.extend(new_id() for _ in range(2_000))

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len({request_id for into in made for request_id in into}) == 16_000
    assert all(into == sorted(into) for into in made)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_ids_are_unique_among_a_process_and_its_forks(monkeypatch: pytest.MonkeyPatch):
    # With the clock standing, only the random bits and the counter tell the processes apart.
    now = time.time()
    monkeypatch.setattr(ids.time, "time", lambda: now)
    new_id()
    made: list[bytes] = []
    for _ in range(3):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, b"".join(new_id() for _ in range(100)))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            data = pipe.read()
        assert os.waitpid(child, 0)[1] == 0
        assert len(data) == 1600
        made += [data[at : at + 16] for at in range(0, len(data), 16)]
    made += [new_id() for _ in range(100)]

    assert len(set(made)) == 400


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_makes_ids_though_another_thread_held_the_lock():
    source = ids._Source()
    source._lock.acquire()
    child = os.fork()
    if child == 0:
        os._exit(0 if len(source.next()) == 16 else 1)
    source._lock.release()

    assert os.waitpid(child, 0)[1] == 0


def test_two_processes_of_the_same_millisecond_have_other_random_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ids.time, "time", lambda: 1_700_000_000.0)

    assert ids._Source().next()[11:] != ids._Source().next()[11:]


def test_a_clock_that_is_set_back_and_right_again_keeps_ids_rising(monkeypatch: pytest.MonkeyPatch):
    now = [1_700_000_000.0]
    monkeypatch.setattr(ids.time, "time", lambda: now[0])
    source = ids._Source()

    made = [source.next()]
    for step in (-0.5, 0.25, -0.25, 1.0, -3600.0, 1.0, 3600.0, -1e9, 1e9):
        now[0] += step
        made.append(source.next())

    assert made == sorted(made)


@pytest.mark.parametrize("step", [0.002, -0.002])
def test_who_knows_an_id_of_a_process_cannot_tell_those_of_later_milliseconds(
    monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    now = [1_700_000_000.0]
    monkeypatch.setattr(ids.time, "time", lambda: now[0])
    source = ids._Source()
    counts, made = [], [source.next()]
    for _ in range(100):
        now[0] += step
        made.append(source.next())
        counts.append(int.from_bytes(made[-1][6:11]) - int.from_bytes(made[-2][6:11]))

    assert made == sorted(made)
    assert len(set(counts)) > 90, "the same step from each to the next would tell all"


def test_ids_rise_over_the_turn_of_the_counter(monkeypatch: pytest.MonkeyPatch):
    now = 1_700_000_000.0
    monkeypatch.setattr(ids.time, "time", lambda: now)
    source = ids._Source()
    source.next()
    source._count = 0xFFFFFFFD

    made = [source.next() for _ in range(6)]
    now += 0.001
    made += [source.next() for _ in range(2)]

    assert made == sorted(made)
    assert len({one[11:] for one in made}) == 1


@given(st.uuids())
def test_text_and_bytes_are_the_same_id(value: uuid.UUID):
    assert to_text(value.bytes) == str(value)
    assert to_bytes(str(value)) == value.bytes
    assert to_bytes(value.hex.upper()) == value.bytes
    assert to_bytes(value.urn) == value.bytes


def test_a_foreign_id_that_is_half_a_character_is_one_too():
    assert uuid.UUID(bytes=foreign_id("\ud800")).version == 8


@pytest.mark.parametrize("text", ["", "dlg-2025-10-06-001", "550e8400-e29b-41d4-a716"])
def test_text_that_is_no_uuid_is_refused(text: str):
    with pytest.raises(ValueError, match="badly formed"):
        to_bytes(text)


@given(st.uuids())
def test_a_foreign_uuid_stands_for_itself(value: uuid.UUID):
    assert foreign_id(str(value)) == value.bytes


@given(texts)
def test_any_other_foreign_id_is_always_the_same_uuid_of_version_8(text: str):
    request_id = foreign_id(f"task {text}")

    assert uuid.UUID(bytes=request_id).version == 8
    assert uuid.UUID(bytes=request_id).variant == uuid.RFC_4122
    assert request_id == foreign_id(f"task {text}")
    assert request_id != foreign_id(f"task {text}.")


def test_no_id_is_no_id_that_is_ever_made():
    assert bytes(16) == NO_ID
    assert new_id() != NO_ID
