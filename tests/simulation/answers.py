"""The answers that living nodes owe: each one has come to a broker when the world is at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ether_broker.wire.frame import Kind, read_envelopes
from tests.simulation.disk import STILL_RUNNING

if TYPE_CHECKING:
    from tests.simulation.member import Life

__all__ = ["Answers"]


class Answers:
    """Terminal responses by their request id and attempt: what the nodes have given to their links, and what has arrived."""

    def __init__(self) -> None:
        self._given: dict[bytes, Life] = {}
        self._arrived: set[bytes] = set()

    def given(self, life: Life, envelope: bytes) -> None:
        """See an envelope be given to a link."""
        if _is_answer(envelope):
            self._given[_key(envelope)] = life

    def arrived(self, frame: bytes) -> None:
        """See a frame come to the broker."""
        self._arrived.update(_key(envelope) for envelope in read_envelopes(frame) or () if _is_answer(envelope))

    def missing(self) -> list[bytes]:
        """The request ids of what has not arrived and was given by a process that is still there."""
        return [
            key[:16] for key, life in self._given.items() if life.member.is_in and life.member.life is life
            and key not in self._arrived
        ]  # fmt: skip


def _is_answer(envelope: bytes) -> bool:
    return envelope[0] == Kind.RESPONSE and envelope[1] not in STILL_RUNNING


def _key(envelope: bytes) -> bytes:
    return envelope[16:32] + envelope[7:8]
