"""The offering of files of this machine to others, and the answers to those that fetch them.

    offer(path) ──► Artifact with a key          the key says: this node offered this very file
    FETCH ──► serve ──► the pool ──► CHUNK       the bytes, if the file has not changed since
                           └─► 0.1 s ──► CHUNK   that it has no key, or cannot be read

Nothing is kept of an offer: the key is a signature (HMAC-SHA-256) over path, digest, size and what tells the file from any
other that has its path later. A cluster gives a node the same secret in its next life, so what it offered stays good.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
from collections.abc import Callable
from threading import Lock
from typing import Final

from ether.node.connection.sender import Sender
from ether_actors.execution.resources import Resources
from ether_broker.artifacts.sealing import seal
from ether_broker.encoding.bounded import Bounds, read_map
from ether_broker.envelope.artifact import Artifact, ArtifactSource
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import (
    ArtifactMismatch,
    ArtifactUnavailable,
    EtherError,
    InvalidEnvelope,
    TooMuch,
    Unserialisable,
    UsageError,
)
from ether_broker.wire.chunk import MOST_FETCH, ChunkRequest
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["ArtifactServer"]

_CHANGED: Final = "{} was changed or removed since the node {!r} offered it."
_FOREIGN: Final = "The node {1!r} has not offered {0} with this key, or had another `artifact_secret` when it did."
_BUSY: Final = "The node {!r} has more to send than its connection takes at the moment."
_MUCH_KEPT: Final = 1 << 20
"""Bytes that wait to be sent or acknowledged above which a chunk is read each `_PACE` seconds: answers of agents go before."""
_PACE: Final = 0.01
_MOST_KEPT: Final = 32 << 20
"""Bytes of that above which none is read."""
_REQUEST: Final = Bounds(MOST_FETCH, 64, 3)
"""A FETCH has 16 values."""
_UNLAWFUL: Final = 0.1
"""Seconds until a FETCH without a key is answered: the broker lets 32 wait here, so that only some 300 a second come."""
_REPLACED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class ArtifactServer:
    """The part of a node that lets other machines read files that it offered.

    Args:
        name: of the node.
        secret: of which the keys of its offers are made; the same in each of its lives.
        sender: the way to the broker.
        resources: whose pool reads.
        call_at: calls something in the pool at a time by the node's clock.
    """

    def __init__(
        self, name: str, secret: bytes, sender: Sender, resources: Resources,
        call_at: Callable[[float, Callable[[], None]], None],
    ) -> None:  # fmt: skip
        self._name = name
        self._secret = secret
        self._sender = sender
        self._resources = resources
        self._call_at = call_at
        self._next_chunk = 0.0
        self._refusals: list[bytes] = []
        """What is sent a little later, all together."""
        self._lock = Lock()

    def offer(self, path: str | os.PathLike[str]) -> Artifact:
        """Seal a file as it is now, and offer it; reads all of it.

        Raises:
            OSError: it cannot be read, is no regular file, or was written meanwhile.
            UsageError: it is no path, or its name is no text that can travel.
        """
        named = os.fspath(path) if isinstance(path, str | os.PathLike) else None
        if not isinstance(named, str) or not named or "\0" in named:
            raise UsageError(f"artifact({path!r:.80}): the path of a file, as text or as a pathlib.Path.")
        real = os.path.realpath(path)
        digest, found = seal(real)
        return self.sign(Artifact(path=real, sha256=digest, size=found.st_size), found)

    def sign(self, artifact: Artifact, found: os.stat_result) -> Artifact:
        """Offer a file that is sealed already.

        Args:
            artifact: with an absolute path.
            found: of the file, as it was sealed.

        Raises:
            UsageError: its name is no text that can travel.
        """
        file = _identity(found)
        try:
            key = self._key(artifact.path, artifact.sha256, artifact.size, file)
        except Unserialisable:
            raise UsageError(f"The name {artifact.path!r} is no text: rename the file before it is offered.") from None
        return artifact.model_copy(update={"source": ArtifactSource(node=self._name, file=file, key=key)})

    def _key(self, *signed: object) -> str:
        return hmac.new(self._secret, pack(signed), hashlib.sha256).hexdigest()

    def serve(self, header: Header, envelope: bytes) -> None:
        """Answer a FETCH, in the pool; that there is no room while much waits for the broker to take or to acknowledge it."""
        self._resources.run(lambda: self._answer(header, envelope))

    def _answer(self, header: Header, envelope: bytes) -> None:
        try:
            wanted = self._wanted(envelope[header.body :])
        except Exception as error:  # noqa: BLE001  who asks waits for an answer
            self._refuse_later(_refusal(header, error, Status.REJECTED_CONTEXT))
            return
        try:
            body = self._read(wanted)
            answer = pack_envelope(Kind.CHUNK, request_id=header.request_id, status=Status.COMPLETED, body=body)
        except Exception as error:  # noqa: BLE001  likewise
            answer = _refusal(header, error, Status.FAILED_EXECUTION)
        self._sender.send_now(answer)

    def _refuse_later(self, refusal: bytes) -> None:
        with self._lock:
            self._refusals.append(refusal)
            is_first = len(self._refusals) == 1
        if is_first:
            self._call_at(self._resources.monotonic() + _UNLAWFUL, self._send_refusals)

    def _send_refusals(self) -> None:
        with self._lock:
            refusals, self._refusals = self._refusals, []
        for refusal in refusals:
            self._sender.send(refusal, more_follows=True)
        self._sender.flush()

    def _wanted(self, body: bytes) -> ChunkRequest:
        """What is asked for; no more of it is looked at than its key, unless this node made that.

        Raises:
            ArtifactMismatch: the file was not offered.
            InvalidEnvelope: it cannot be read.
        """
        request = read_map(body, _REQUEST)
        artifact = request.get("artifact")
        source = artifact.get("source") if isinstance(artifact, dict) else None
        if not isinstance(artifact, dict) or not isinstance(source, dict):
            raise InvalidEnvelope("A FETCH says an `artifact` that has a `source`.")
        key = self._key(*map(artifact.get, ("path", "sha256", "size")), source.get("file"))
        if not hmac.compare_digest(str(source.get("key")).encode(), key.encode()):
            raise ArtifactMismatch(_FOREIGN.format(artifact.get("path"), self._name))
        return ChunkRequest.parse(request)

    def _read(self, wanted: ChunkRequest) -> bytes:
        """The bytes that are asked for.

        Raises:
            ArtifactMismatch: the file is another by now.
            TooMuch: more than enough waits to be sent, or for the broker's receipt.
            OSError, ValueError: it cannot be read.
        """
        artifact, source = wanted.artifact, wanted.artifact.source
        assert source is not None  # it has a key
        kept, now = self._sender.link.kept_bytes, self._resources.monotonic()
        if kept > _MOST_KEPT or (kept > _MUCH_KEPT and now < self._next_chunk):
            raise TooMuch(_BUSY.format(self._name))
        self._next_chunk = now + _PACE  # of those that have a key: others take no turn from them
        try:
            file = os.open(artifact.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno not in _REPLACED:
                raise
            raise ArtifactMismatch(_CHANGED.format(artifact.shown_path, self._name)) from None
        try:
            if _identity(os.fstat(file)) != source.file:
                raise ArtifactMismatch(_CHANGED.format(artifact.shown_path, self._name))
            return os.pread(file, wanted.length, wanted.offset)
        finally:
            os.close(file)


def _refusal(header: Header, error: Exception, status: Status) -> bytes:
    code = error.code if isinstance(error, EtherError) else ArtifactUnavailable.code
    body = pack({"code": code, "message": str(error)})
    return pack_envelope(Kind.CHUNK, request_id=header.request_id, status=status, body=body)


def _identity(found: os.stat_result) -> str:
    """What tells a file from one that is put in its place, or that it becomes by being written."""
    return f"{found.st_dev}-{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"
