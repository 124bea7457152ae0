"""The offering of files of this machine to others, and the answers to those that fetch them.

    offer(path) ──► Artifact with a key          the key says: this node offered this very file
    FETCH ──► serve ──► the pool ──► CHUNK       the bytes, if the file has not changed since

Nothing is kept of an offer: the key is a signature (HMAC-SHA-256) over path, digest, size and what tells the file from any
other that has its path later. A cluster gives a node the same secret in its next life, so what it offered stays good.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
from typing import Final

from ether.node.connection.sender import Sender
from ether_actors.execution.resources import Resources
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.artifact import Artifact, ArtifactSource, seal
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import ArtifactMismatch, ArtifactUnavailable, EtherError, TooMuch, Unserialisable, UsageError
from ether_broker.wire.chunk import ChunkRequest
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
_REPLACED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class ArtifactServer:
    """The part of a node that lets other machines read files that it offered.

    Args:
        name: of the node.
        secret: of which the keys of its offers are made; the same in each of its lives.
        sender: the way to the broker.
        resources: whose pool reads.
    """

    def __init__(self, name: str, secret: bytes, sender: Sender, resources: Resources) -> None:
        self._name = name
        self._secret = secret
        self._sender = sender
        self._resources = resources
        self._next_chunk = 0.0

    def offer(self, path: str | os.PathLike[str]) -> Artifact:
        """Seal a file as it is now, and offer it; reads all of it.

        Raises:
            OSError: it cannot be read, is no regular file, or was written meanwhile.
            UsageError: its name is no text that can travel.
        """
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
            key = self._key(artifact, file)
        except Unserialisable:
            raise UsageError(f"The name {artifact.path!r} is no text: rename the file before it is offered.") from None
        return artifact.model_copy(update={"source": ArtifactSource(node=self._name, file=file, key=key)})

    def _key(self, artifact: Artifact, file: str) -> str:
        signed = pack((artifact.path, artifact.sha256, artifact.size, file))
        return hmac.new(self._secret, signed, hashlib.sha256).hexdigest()

    def serve(self, header: Header, envelope: bytes) -> None:
        """Answer a FETCH, in the pool; that there is no room while much waits for the broker to take or to acknowledge it."""
        self._resources.run(lambda: self._answer(header, envelope))

    def _answer(self, header: Header, envelope: bytes) -> None:
        status, body = Status.COMPLETED, b""
        try:
            body = self._read(ChunkRequest.parse(read_map(envelope[header.body :], CONTROL)))
        except Exception as error:  # noqa: BLE001  who asks waits for an answer
            code = error.code if isinstance(error, EtherError) else ArtifactUnavailable.code
            status, body = Status.FAILED_EXECUTION, pack({"code": code, "message": str(error)})
        self._sender.send_now(pack_envelope(Kind.CHUNK, request_id=header.request_id, status=status, body=body))

    def _read(self, wanted: ChunkRequest) -> bytes:
        """The bytes that are asked for; nothing is looked at that this node did not offer.

        Raises:
            ArtifactMismatch: the file was not offered, or is another by now.
            TooMuch: more than enough waits to be sent, or for the broker's receipt.
            OSError, ValueError: it cannot be read.
        """
        artifact, source = wanted.artifact, wanted.artifact.source
        if source is None or not hmac.compare_digest(source.key.encode(), self._key(artifact, source.file).encode()):
            raise ArtifactMismatch(_FOREIGN.format(artifact.path, self._name))
        kept, now = self._sender.link.kept_bytes, self._resources.monotonic()
        if kept > _MOST_KEPT or (kept > _MUCH_KEPT and now < self._next_chunk):
            raise TooMuch(_BUSY.format(self._name))
        self._next_chunk = now + _PACE  # of those that have a key: others take no turn from them
        try:
            file = os.open(artifact.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno not in _REPLACED:
                raise
            raise ArtifactMismatch(_CHANGED.format(artifact.path, self._name)) from None
        try:
            if _identity(os.fstat(file)) != source.file:
                raise ArtifactMismatch(_CHANGED.format(artifact.path, self._name))
            return os.pread(file, wanted.length, wanted.offset)
        finally:
            os.close(file)


def _identity(found: os.stat_result) -> str:
    """What tells a file from one that is put in its place, or that it becomes by being written."""
    return f"{found.st_dev}-{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"
