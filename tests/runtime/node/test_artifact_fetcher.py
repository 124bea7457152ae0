"""A fetcher beside what its link brings: answers of sessions before, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from ether.node.artifacts import artifact_fetcher
from ether.node.artifacts.artifact_fetcher import ArtifactFetcher
from ether.node.artifacts.transfer_places import LOOK, Place, TransferPlaces
from ether.node.connection.session_state import SessionState
from ether_actors.task.task import RUNNING, Task
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.artifact import Artifact, ArtifactSource
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import ArtifactUnavailable, NoSession, TooMuch
from ether_broker.wire.chunk import MOST_CHUNK
from ether_broker.wire.frame import Kind, pack_envelope, read_header

ARTIFACT = Artifact(
    path="/report", sha256="0" * 64, size=0, source=ArtifactSource(node="desk", file="1", key="k")
)  # fmt: skip


class Link:
    """Sender and resources of a node, whose broker answers as a test says whenever it is sent something."""

    answer: Callable[[list[bytes]], None]

    def __init__(self) -> None:
        self.link = SimpleNamespace(is_receiving_thread=False, endpoint="memory")
        self.pauses: list[float] = []
        self.now, self.delay = 0.0, 0.0
        """Seconds by its clock, and until each answer comes."""
        self.taken_back: list[bytes] = []
        self.lengths: dict[bytes, int] = {}
        """{request id: bytes that it asks for}."""
        self.waits: Callable[[], object] = lambda: None
        """Called whenever it waits in vain."""
        self._left: float | None = None
        self._asked: list[bytes] = []

    def send(self, envelope: bytes, *, more_follows: bool = False) -> None:
        header = read_header(envelope)
        self._asked.append(header.request_id)
        self.lengths[header.request_id] = read_map(envelope[header.body :], CONTROL)["length"]

    def send_now(self, envelope: bytes) -> None:
        header = read_header(envelope)
        assert (header.kind, header.body) == (Kind.FETCH, len(envelope))
        self.taken_back.append(header.request_id)

    def flush(self) -> None:
        asked, self._asked = self._asked, []
        if asked:
            self.answer(asked)

    def monotonic(self) -> float:
        return self.now

    def wait(self, _event: object, seconds: float) -> bool:
        self.pauses.append(seconds)
        self.now += seconds
        return False

    def take(self, queue: SimpleQueue[bytes], timeout: float | None) -> bytes:
        assert timeout is not None
        left = self.delay if self._left is None else self._left
        if queue.empty() or left > timeout:
            if not queue.empty():
                self._left = left - timeout
            self.now += timeout
            self.waits()
            raise Empty
        self.now += left
        self._left = None
        return queue.get_nowait()


def fetched(
    answer: Callable[[ArtifactFetcher, list[bytes]], None],
    link: Link | None = None,
    *,
    idle_timeout: float = 1.0,
    size: int = MOST_CHUNK + 3,
) -> tuple[bytes, Link]:
    """The bytes that come when a broker answers like this, which is called for all that was asked in one go."""
    link = link or Link()
    link.answer = lambda asked: answer(fetcher, asked)
    state = SessionState()
    state.heard = 0.0
    resources: Any = link
    fetcher = ArtifactFetcher(resources, resources, state)
    came = bytearray()
    try:
        fetcher.fetch(ARTIFACT.model_copy(update={"size": size}), came.extend, idle_timeout)
    finally:
        assert "desk" not in fetcher._places._taken
    return bytes(came), link


def bring(fetcher: ArtifactFetcher, request_id: bytes, body: bytes) -> None:
    envelope = pack_envelope(Kind.CHUNK, request_id=request_id, status=Status.COMPLETED, body=body)
    assert fetcher.answered(read_header(envelope), envelope)


def refuse(fetcher: ArtifactFetcher, request_id: bytes, code: str = TooMuch.code) -> None:
    envelope = pack_envelope(Kind.ERROR, request_id=request_id, body=pack({"code": code, "message": "not now"}))
    assert fetcher.answered(read_header(envelope), envelope)


@pytest.mark.parametrize("late", ["chunk", "refusal"])
def test_what_a_session_before_answered_is_not_taken_for_what_is_asked_now(late: str) -> None:
    rounds: list[list[bytes]] = []

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        rounds.append(asked)
        if len(rounds) == 1:
            fetcher.begin_again()
            for request_id in asked:
                bring(fetcher, request_id, b"old") if late == "chunk" else refuse(fetcher, request_id)
        else:
            for request_id, length in zip(asked, (MOST_CHUNK, 3), strict=True):
                bring(fetcher, request_id, bytes(length))

    came, link = fetched(answer)

    assert came == bytes(MOST_CHUNK + 3)
    assert len(rounds) == 2
    assert link.pauses == []


def test_what_the_broker_cannot_pass_on_is_asked_again_after_a_pause() -> None:
    rounds: list[list[bytes]] = []

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        rounds.append(asked)
        if len(rounds) == 1:
            bring(fetcher, asked[0], bytes(MOST_CHUNK))
            refuse(fetcher, asked[1])
        else:
            bring(fetcher, asked[0], b"end")

    came, link = fetched(answer)

    assert came == bytes(MOST_CHUNK) + b"end"
    assert link.pauses == [artifact_fetcher._PAUSE]


@pytest.mark.parametrize("code", [ArtifactUnavailable.code, TooMuch.code])
def test_a_node_that_is_lost_when_chunks_have_come_has_10_s_to_be_back(code: str) -> None:
    link = Link()

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        if not link.now:
            bring(fetcher, asked.pop(0), bytes(MOST_CHUNK))
        for request_id in asked:
            refuse(fetcher, request_id, code)

    is_absent = code == ArtifactUnavailable.code
    said = "^not now 262,144 of 524,291 bytes had come" if is_absent else "^No byte of /report came for 30 s"
    with pytest.raises(ArtifactUnavailable, match=said) as caught:
        fetched(answer, link, idle_timeout=30.0, size=2 * MOST_CHUNK + 3)

    assert type(caught.value) is ArtifactUnavailable  # so that nobody begins it anew, for another 10 s
    assert link.now == pytest.approx(10.0 if is_absent else 30.0, abs=2 * artifact_fetcher._PAUSE)


def test_a_node_that_is_back_within_10_s_goes_on_and_has_them_again() -> None:
    link = Link()
    came_at: list[float] = []

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        for request_id in asked:
            if link.now >= 9.0 * len(came_at):
                came_at.append(link.now)
                bring(fetcher, request_id, bytes(link.lengths[request_id]))
            else:
                refuse(fetcher, request_id, ArtifactUnavailable.code)

    came, _ = fetched(answer, link, idle_timeout=30.0, size=2 * MOST_CHUNK + 3)
    assert len(came) == 2 * MOST_CHUNK + 3
    assert came_at == pytest.approx([0.0, 9.0, 18.0], abs=2 * artifact_fetcher._PAUSE)


def test_what_is_given_up_is_taken_back() -> None:
    rounds: list[list[bytes]] = []

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        rounds.append(asked)
        bring(fetcher, asked[0], b"short")

    link = Link()
    with pytest.raises(ArtifactUnavailable, match="is cut off"):
        fetched(answer, link)

    assert link.taken_back == rounds[0][1:]


def test_that_the_broker_does_not_know_the_session_is_no_answer() -> None:
    said = pack({"code": NoSession.code, "message": "say HELLO"})

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        for request_id, length in zip(asked, (MOST_CHUNK, 3), strict=True):
            told = pack_envelope(Kind.ERROR, request_id=request_id, body=said)
            assert not fetcher.answered(read_header(told), told)
            bring(fetcher, request_id, bytes(length))

    assert fetched(answer)[0] == bytes(MOST_CHUNK + 3)


@pytest.mark.parametrize("delay", [0.9, 1.1])
def test_the_idle_timeout_begins_again_with_each_byte_that_comes(delay: float) -> None:
    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        for request_id, length in zip(asked, (MOST_CHUNK, 3), strict=True):
            bring(fetcher, request_id, bytes(length))
        link.delay = delay

    link = Link()
    if delay < 1.0:
        assert fetched(answer, link)[0] == bytes(MOST_CHUNK + 3)
    else:
        with pytest.raises(ArtifactUnavailable, match="came for 1 s; 0 of 262,147 had come"):
            fetched(answer, link)


def test_each_chunk_tells_those_who_wait_that_something_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[None] = []
    monkeypatch.setattr(TransferPlaces, "moved", lambda _self, _place: moved.append(None))

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        for request_id, length in zip(asked, (MOST_CHUNK, 3), strict=True):
            bring(fetcher, request_id, bytes(length))

    fetched(answer)
    assert len(moved) == 2


@pytest.mark.parametrize("body", [b"\xc1", pack(["no map"]), b"", pack({"code": 3})])
def test_a_refusal_that_cannot_be_read_is_one_all_the_same(body: bytes) -> None:
    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        envelope = pack_envelope(Kind.CHUNK, request_id=asked[0], status=Status.FAILED_EXECUTION, body=body)
        assert fetcher.answered(read_header(envelope), envelope)

    with pytest.raises(ArtifactUnavailable, match=r"cannot be read|without a reason"):
        fetched(answer)


def beside_another(fetcher: ArtifactFetcher, link: Link) -> TransferPlaces:
    """Take all places but that of the transfer, and let one from another node wait, which ends as soon as it is let in."""
    places = fetcher._places
    if not places._taken["n0"]:
        for number in range(artifact_fetcher._TRANSFERS - 1):
            assert places.take(f"n{number}", 1.0)
    other = Place("other", 0.0)
    places._waiting.append(other)

    def waits() -> None:
        if places._taken["other"]:
            places.give_back(other)

    link.waits = waits
    return places


@pytest.mark.parametrize("has_chunk", [True, False])
def test_a_transfer_leaves_its_place_to_one_of_another_node_and_goes_on_later(*, has_chunk: bool) -> None:
    rounds: list[tuple[float, list[bytes]]] = []
    link = Link()

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        rounds.append((link.now, asked))
        if len(rounds) == 1:
            beside_another(fetcher, link)
            if has_chunk:
                bring(fetcher, asked[0], bytes(MOST_CHUNK))
        else:
            for request_id, length in zip(asked, (3,) if has_chunk else (MOST_CHUNK, 3), strict=True):
                bring(fetcher, request_id, bytes(length))

    came, _ = fetched(answer, link, idle_timeout=30.0)

    assert came == bytes(MOST_CHUNK + 3)
    left_at = 2.0 + artifact_fetcher._UNDER_WAY if has_chunk else 8.0
    assert rounds[1][0] == left_at + LOOK
    assert link.taken_back == rounds[0][1][has_chunk:]


def test_what_is_under_way_is_taken_before_a_place_is_left() -> None:
    rounds: list[tuple[float, list[bytes]]] = []
    link = Link()

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        rounds.append((link.now, asked))
        beside_another(fetcher, link)
        bring(fetcher, asked[0], bytes(MOST_CHUNK))
        goes_on = link.waits

        def waits() -> None:
            goes_on()
            if link.now == 4.0:
                bring(fetcher, asked[1], b"end")

        link.waits = waits

    assert fetched(answer, link, idle_timeout=30.0)[0] == bytes(MOST_CHUNK) + b"end"
    assert len(rounds) == 1
    assert link.taken_back == []


def test_a_node_that_is_silent_is_so_too_over_several_places() -> None:
    link = Link()
    with pytest.raises(ArtifactUnavailable, match="came for 20 s"):
        fetched(lambda fetcher, _asked: beside_another(fetcher, link), link, idle_timeout=20.0)
    assert link.now == 20.0 + 2 * LOOK


def test_what_a_handler_left_behind_does_not_end_with_its_delegation() -> None:
    link = Link()
    task = Task(Delegation(request_id="0" * 32, from_agent="desk", capability="x.y"), "agent", None, None)
    task.cancel()
    task.close()
    context = Context()
    context.run(RUNNING.set, task)

    def answer(fetcher: ArtifactFetcher, asked: list[bytes]) -> None:
        for request_id, length in zip(asked, (MOST_CHUNK, 3), strict=True):
            bring(fetcher, request_id, bytes(length))

    assert context.run(fetched, answer, link)[0] == bytes(MOST_CHUNK + 3)


def test_a_transfer_ends_with_the_delegation_whose_handler_asks() -> None:
    link = Link()
    task = Task(Delegation(request_id="0" * 32, from_agent="desk", capability="x.y"), "agent", None, None)

    def answer(_fetcher: ArtifactFetcher, _asked: list[bytes]) -> None:
        link.waits = task.cancel

    context = Context()
    context.run(RUNNING.set, task)
    with pytest.raises(ArtifactUnavailable, match=r"The delegation for which /report was fetched has ended\."):
        context.run(fetched, answer, link, idle_timeout=30.0)
    assert link.now == LOOK
    assert len(link.taken_back) == 2
