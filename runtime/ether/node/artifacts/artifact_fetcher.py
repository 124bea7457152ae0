"""The fetching of artifacts from other nodes.

    fetch ── FETCH, 4 at a time ──► broker ──► the node that offered the file
    fetch ◄── its queue ◄── Node ◄── CHUNK, or ERROR of the broker

Reading is repeatable: in a new session, and when the node is away for a moment, what has no answer is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from ether.node.artifacts.artifact_transfer import WINDOW, ArtifactTransfer
from ether.node.artifacts.transfer_places import LOOK, MOST_OF_NODE, Place, TransferPlaces
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether_actors.execution.resources import Resources
from ether_actors.task.task import running_task
from ether_actors.threads.latch import Latch
from ether_broker.artifacts.fetching import ABSENCE, FetchEnded, NodeAbsent
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.ids import new_id
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import (
    ArtifactMismatch,
    ArtifactUnavailable,
    Closed,
    EtherError,
    NoSession,
    TooMuch,
    UsageError,
)
from ether_broker.text import printable
from ether_broker.wire.chunk import MOST_FETCH, MOST_OPEN, ChunkRequest
from ether_broker.wire.frame import Header, Kind, pack_envelope, read_header

__all__ = ["ArtifactFetcher"]

_TRANSFERS: Final = MOST_OPEN // WINDOW
"""Transfers of a node at a time; further ones wait."""
_UNDER_WAY: Final = 8.0
"""Seconds that chunks which are under way have when their transfer leaves its place."""
_PAUSE: Final = 0.1
"""Seconds until what the broker could not pass on is asked again."""
_MOST_SAID: Final = 1_000
_Answers: TypeAlias = "SimpleQueue[bytes | None]"
"""Where the answers of a transfer are put; None: what has no answer is not known to the broker any more."""


class ArtifactFetcher:
    """The part of a node that gets the bytes of artifacts from others."""

    def __init__(self, sender: Sender, resources: Resources, session_state: SessionState) -> None:
        self._sender = sender
        self._resources = resources
        self._session_state = session_state
        self._waiting: dict[bytes, _Answers] = {}
        """{request id of a FETCH: where its answer is put}."""
        self._places = TransferPlaces(_TRANSFERS, resources)
        self._is_closed = False

    def check_may_wait(self) -> None:
        """As `Fetcher.check_may_wait`."""
        if self._sender.link.is_receiving_thread:
            raise UsageError("A callback of a handle runs in the receiving thread and must not wait: start a thread.")

    def pause(self, seconds: float) -> None:
        """As `Fetcher.pause`."""
        self._resources.wait(Latch(), seconds)

    def fetch(self, artifact: Artifact, write: Callable[[bytes], object], idle_timeout: float) -> None:
        """As `Fetcher.fetch`.

        Raises:
            ArtifactMismatch: its node has another file by now.
            ArtifactUnavailable: its node does not give its bytes, nothing came for `idle_timeout` seconds, or its node left the
                bus after something had come and was not back for 10.
            FetchEnded: the delegation whose handler asks was cancelled.
            NodeAbsent: its node is not on the bus, or the broker is silent, before anything came.
            Closed: the runtime was closed meanwhile.
        """
        assert artifact.source is not None
        if not self._session_state.is_heard(self._resources.monotonic()):
            raise NodeAbsent(
                f"The broker at {self._sender.link.endpoint} is silent, so that {artifact.shown_path} is not fetched."
            )
        task = running_task()

        def check() -> None:
            if task is not None and task.cancelled:
                raise FetchEnded(f"The delegation for which {artifact.shown_path} was fetched has ended.")

        transfer = ArtifactTransfer(artifact.shown_path, artifact.size or 0)
        had_one = False
        while not transfer.is_done:
            place = self._places.take(artifact.source.node, idle_timeout, check, had_one=had_one)
            if place is None:
                raise ArtifactUnavailable(
                    f"Other artifacts are fetched, {MOST_OF_NODE} at a time of one node and {_TRANSFERS} in all, and no byte "
                    f"of them came for {idle_timeout:g} s, so that {artifact.shown_path} is not fetched."
                )
            had_one = True
            try:
                self._fetch(transfer, place, artifact, write, idle_timeout, check)
            finally:
                for request_id in self._forget(transfer):
                    if not self._is_closed:
                        self._sender.send_now(pack_envelope(Kind.FETCH, request_id=request_id))
                self._places.give_back(place)

    def _fetch(  # noqa: PLR0917  made for one call
        self, transfer: ArtifactTransfer, place: Place, artifact: Artifact, write: Callable[[bytes], object],
        idle_timeout: float, check: Callable[[], None],
    ) -> None:  # fmt: skip
        """Take chunks to the last, or until the place is to be left: then those that are under way, if any came at all."""
        answers: _Answers = SimpleQueue()
        moved = self._resources.monotonic()
        limit = inf
        while not transfer.is_done:
            now = self._resources.monotonic()
            if limit == inf and self._places.is_to_leave(place):
                limit = now if place.is_silent else now + _UNDER_WAY
            if limit == inf:
                while (wanted := transfer.wanted()) is not None:
                    self._ask(transfer, answers, ChunkRequest(artifact=artifact, offset=wanted[0], length=wanted[1]))
                self._sender.flush()
            silent = transfer.silent + now - moved
            if now >= limit or not transfer.asked:
                transfer.silent = silent
                return
            check()
            if silent >= idle_timeout:
                raise ArtifactUnavailable(
                    f"No byte of {artifact.shown_path} came for {idle_timeout:g} s; "
                    f"{transfer.written:,} of {artifact.size:,} had come."
                )
            try:
                envelope = self._resources.take(answers, min(LOOK, idle_timeout - silent))
            except Empty:
                continue
            if self._take(transfer, envelope, artifact, write):
                moved, transfer.silent = self._resources.monotonic(), 0.0
                self._places.moved(place)

    def _take(
        self, transfer: ArtifactTransfer, envelope: bytes | None, artifact: Artifact, write: Callable[[bytes], object]
    ) -> bool:  # fmt: skip
        """Take what was answered; whether it is a chunk."""
        if envelope is None:
            self._forget(transfer)
            return False
        header = read_header(envelope)
        if header.request_id not in transfer.asked:
            return False  # of the session before
        self._waiting.pop(header.request_id, None)
        if header.kind == Kind.CHUNK and header.status == Status.COMPLETED.code:
            for data in transfer.took(header.request_id, envelope[header.body :]):
                write(data)
            return True
        transfer.refused(header.request_id)
        try:
            _check_refusal(header, envelope, artifact)
        except NodeAbsent as error:  # it may come back
            if not transfer.has_begun:
                raise
            if transfer.absent >= ABSENCE:
                raise ArtifactUnavailable(
                    f"{error} {transfer.written:,} of {artifact.size:,} bytes had come."
                ) from None
            transfer.absent += _PAUSE
        self.pause(_PAUSE)
        return False

    def _ask(self, transfer: ArtifactTransfer, answers: _Answers, wanted: ChunkRequest) -> None:
        assert wanted.artifact.source is not None
        target, body = wanted.artifact.source.node.encode(), pack(wanted)
        if len(body) > MOST_FETCH:
            raise ArtifactUnavailable(f"{wanted.artifact.shown_path}: path and source are too long to be asked for.")
        request_id = new_id()
        transfer.asked[request_id] = wanted.offset
        self._waiting[request_id] = answers
        if self._is_closed:  # looked at last: who closes tells those that wait
            raise Closed("The runtime that fetches the artifact was closed.")
        self._sender.send(pack_envelope(Kind.FETCH, request_id=request_id, target=target, body=body), more_follows=True)

    def _forget(self, transfer: ArtifactTransfer) -> list[bytes]:
        """Wait no longer for what was asked: its request ids."""
        asked = transfer.begin_again()
        for request_id in asked:
            self._waiting.pop(request_id, None)
        return asked

    # -- what comes ----------------------------------------------------------------------------------------------

    def answered(self, header: Header, envelope: bytes) -> bool:
        """Take a CHUNK or an ERROR; whether a transfer waits for it."""
        answers = self._waiting.get(header.request_id)
        if answers is None:
            return False
        if header.kind == Kind.ERROR and read_map(envelope[header.body :], CONTROL).get("code") == NoSession.code:
            return False  # which is no answer: it is asked again in the next session
        answers.put(envelope)
        return True

    def begin_again(self) -> None:
        """Ask again what has no answer, now that a session has begun in which the broker does not know of it."""
        for answers in {id(answers): answers for answers in list(self._waiting.values())}.values():
            answers.put(None)

    def close(self) -> None:
        """End the transfers."""
        self._is_closed = True
        self._places.close()
        self.begin_again()


def _check_refusal(header: Header, envelope: bytes, artifact: Artifact) -> None:
    """Raise what is said instead of a chunk, unless the next time may be another.

    Raises:
        ArtifactMismatch: its node has another file by now.
        NodeAbsent: its node is away.
        ArtifactUnavailable: the same would be said again.
    """
    try:
        said = read_map(envelope[header.body :], CONTROL)
    except EtherError as error:
        raise ArtifactUnavailable(f"What was said instead of {artifact.shown_path} cannot be read: {error}") from error
    code, message = said.get("code"), printable(said.get("message", ""), _MOST_SAID)
    if code == TooMuch.code:
        return
    if header.kind == Kind.ERROR and code == ArtifactUnavailable.code:
        raise NodeAbsent(message)
    if header.kind == Kind.CHUNK and code == ArtifactMismatch.code:
        raise ArtifactMismatch(message, artifact.path, artifact.sha256)
    raise ArtifactUnavailable(message or f"{artifact.shown_path} was refused without a reason.")
