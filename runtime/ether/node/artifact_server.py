"""The offering of files of this machine to others, and the answers to those that fetch them.

    offer(path) ──► Artifact with a key          the key says: this node offered this very file
    FETCH ──► serve ──► the pool ──► CHUNK       the bytes, if the file has not changed since

Nothing is kept of an offer: the key is a signature (HMAC-SHA-256) over path, digest, size, and what tells the file from any
other that has its name later. A cluster gives a node the same secret in its next life, so what it offered stays good.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path

from ether.node.connection.sender import Sender
from ether_actors.execution.resources import Resources
from ether_broker.encoding.bounded import CONTROL, read_map
from ether_broker.envelope.artifact import Artifact, ArtifactSource
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.errors import ArtifactMismatch, ArtifactUnavailable, EtherError, Unserialisable, UsageError
from ether_broker.wire.chunk import ChunkRequest
from ether_broker.wire.frame import Header, Kind, pack_envelope

__all__ = ["ArtifactServer"]

_CHANGED = (
    "The node {!r} does not offer {} as it was sealed: the file was changed or removed since; or the node was started "
    "again, without the `artifact_secret` that it had."
)


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

    def offer(self, path: str | os.PathLike[str]) -> Artifact:
        """Seal a file as it is now, and offer it; reads all of it.

        Raises:
            OSError: it cannot be read, or is no regular file.
            UsageError: its name is no text that can travel.
        """
        return self.sign(Artifact.of(os.path.realpath(path)))

    def sign(self, artifact: Artifact) -> Artifact:
        """Offer a file that is sealed already and whose path is absolute.

        Raises:
            OSError: it cannot be looked at.
            UsageError: its name is no text that can travel.
        """
        try:
            key = self._key(artifact, Path(artifact.path).stat())
        except Unserialisable:
            raise UsageError(f"The name {artifact.path!r} is no text: rename the file before it is offered.") from None
        return artifact.model_copy(update={"source": ArtifactSource(node=self._name, key=key)})

    def _key(self, artifact: Artifact, found: os.stat_result) -> str:
        """The key of a file that is sealed so and found so."""
        signed = (
            artifact.path,
            artifact.sha256,
            artifact.size,
            found.st_dev,
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
        )
        return hmac.new(self._secret, pack(signed), hashlib.sha256).hexdigest()

    def serve(self, header: Header, envelope: bytes) -> None:
        """Answer a FETCH, in the pool."""
        self._resources.run(lambda: self._answer(header, envelope))

    def _answer(self, header: Header, envelope: bytes) -> None:
        status, body = Status.COMPLETED, b""
        try:
            body = self._read(ChunkRequest.parse(read_map(envelope[header.body :], CONTROL)))
        except (EtherError, OSError, ValueError) as error:
            code = error.code if isinstance(error, EtherError) else ArtifactUnavailable.code
            status, body = Status.FAILED_EXECUTION, pack({"code": code, "message": str(error)})
        self._sender.send_now(pack_envelope(Kind.CHUNK, request_id=header.request_id, status=status, body=body))

    def _read(self, wanted: ChunkRequest) -> bytes:
        """The bytes that are asked for.

        Raises:
            ArtifactMismatch: the file was not offered, or is another by now.
            OSError, ValueError: it cannot be read.
        """
        artifact = wanted.artifact
        key = "" if artifact.source is None else artifact.source.key
        try:
            file = os.open(artifact.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ArtifactMismatch(_CHANGED.format(self._name, artifact.path)) from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or not hmac.compare_digest(
                key.encode(), self._key(artifact, found).encode()
            ):
                raise ArtifactMismatch(_CHANGED.format(self._name, artifact.path))
            return os.pread(file, wanted.length, wanted.offset)
        finally:
            os.close(file)
