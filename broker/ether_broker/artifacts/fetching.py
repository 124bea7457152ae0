"""The fetching of an artifact's bytes: by the nodes of this process, from the node that offered them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from ether_broker.errors import ArtifactMismatch, ArtifactTooLarge, ArtifactUnavailable
from ether_broker.text import printable

__all__ = ["ABSENCE", "FETCHERS", "FetchEnded", "Fetcher", "NodeAbsent", "Sealed", "fetch"]

ABSENCE: Final = 10.0
"""Seconds in which a node that is not on the bus may come back."""
_PAUSE: Final = 0.2
"""Seconds between two questions for such a node."""
_Failure: TypeAlias = ArtifactMismatch | ArtifactUnavailable


class Sealed(Protocol):
    """An artifact, as far as it is known here."""

    @property
    def path(self) -> str:
        """Of the file."""

    @property
    def size(self) -> int | None:
        """Bytes."""

    @property
    def source(self) -> object | None:
        """Where it is fetched from."""


_S_contra = TypeVar("_S_contra", bound=Sealed, contravariant=True)


class Fetcher(Protocol[_S_contra]):
    """The interface of a node of this process, which can ask others for the bytes of artifacts."""

    def check_may_wait(self) -> None:
        """Raise UsageError if the calling thread must not wait."""

    def fetch(self, artifact: _S_contra, write: Callable[[bytes], object], idle_timeout: float) -> None:
        """Give all bytes of an artifact to `write`, in order; nobody has compared them with its digest.

        Raises:
            ArtifactMismatch: its node has another file by now.
            ArtifactUnavailable: its node does not give them, or nothing came for `idle_timeout` seconds.
            NodeAbsent: its node is not on this bus, or not now; nothing was written.
        """

    def pause(self, seconds: float) -> None:
        """Let some time pass in a thread that may wait."""


class NodeAbsent(ArtifactUnavailable):
    """The node that has the artifact is on no bus that can be asked."""

    code = ArtifactUnavailable.code


class FetchEnded(ArtifactUnavailable):
    """The delegation whose handler asks has ended: no other bus is asked either."""

    code = ArtifactUnavailable.code


FETCHERS: Final[dict[Fetcher[Any], None]] = {}
"""The open nodes of this process."""


def fetch(
    artifact: Sealed, write: Callable[[bytes], object], reset: Callable[[], object], *, compare: Callable[[str, int], None],
    here: ArtifactMismatch, max_bytes: int, idle_timeout: float,
) -> None:  # fmt: skip
    """Write the bytes that an artifact's node has, by the node of this process that is on its bus and may come back to that.

    Args:
        artifact: whose bytes.
        write: gets them in order; they are those that were sealed only when this returns.
        reset: forgets what was written.
        compare: raises ArtifactMismatch if a digest and a size are not those that were sealed.
        here: why the file of this machine is not taken, which is raised where nobody offers another.
        max_bytes: as `Artifact.open`.
        idle_timeout: as `Artifact.open`.
    """
    if artifact.source is None:
        raise here
    if artifact.size is None:
        raise ArtifactUnavailable(f"{printable(artifact.path)} has no size, so it is not fetched.")
    if artifact.size > max_bytes:
        raise ArtifactTooLarge(
            f"{printable(artifact.path)} has {artifact.size:,} bytes, and max_bytes={max_bytes:,} is the most that is fetched."
        )
    for fetcher in list(FETCHERS):
        fetcher.check_may_wait()
    is_here = here.found_size is not None  # another file that has its path
    tries = 1 if is_here else 1 + int(min(idle_timeout, ABSENCE) / _PAUSE)
    failure = _fetch_by_any(lambda by: _fetch_by(by, artifact, write, compare, idle_timeout), reset, here, tries)
    if is_here and isinstance(failure, ArtifactMismatch | NodeAbsent):
        raise here from failure
    if isinstance(failure, NodeAbsent):
        raise ArtifactUnavailable(str(failure))
    if failure is not None:
        raise failure


def _fetch_by_any(
    fetch_by: Callable[[Fetcher[Any]], _Failure | None], reset: Callable[[], object], here: ArtifactMismatch, tries: int
) -> _Failure | None:  # fmt: skip
    """Ask each bus that this process is on, again while its node is on none; returns why none gave it."""
    while True:
        failure: _Failure | None = None
        for fetcher in list(FETCHERS):
            found = fetch_by(fetcher)
            if found is None:
                return None
            reset()
            if isinstance(found, FetchEnded):
                return found
            if failure is None or isinstance(failure, NodeAbsent):  # a node of its name may be on another bus too
                failure = found
        if failure is None:
            return NodeAbsent(f"{here} No Runtime is open in this process that could fetch it.")
        tries -= 1
        if not tries or not isinstance(failure, NodeAbsent):
            return failure
        fetcher.pause(_PAUSE)


def _fetch_by(
    fetcher: Fetcher[Any], artifact: Sealed, write: Callable[[bytes], object], compare: Callable[[str, int], None],
    idle_timeout: float,
) -> _Failure | None:  # fmt: skip
    """Write what one bus has; returns why that is not what was sealed."""
    digest, size = hashlib.sha256(), 0

    def take(data: bytes) -> None:
        nonlocal size
        size += len(data)
        digest.update(data)
        write(data)

    try:
        fetcher.fetch(artifact, take, idle_timeout)
        compare(digest.hexdigest(), size)
    except (ArtifactMismatch, ArtifactUnavailable) as error:
        return error
    return None
