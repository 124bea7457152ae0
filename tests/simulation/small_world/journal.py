"""The journal of a small world: deterministic, in memory, committed when the world says so."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence

from ether_actors.supervisor.journal.history import History
from ether_broker.errors import EtherError
from ether_broker.journal.journal import Replayed
from ether_broker.tap import Batch
from ether_broker.wire.frame import Kind

__all__ = ["SmallJournal"]

_RUNNING = (1, 7)


class SmallJournal:
    """A broker's journal (`ether_broker.journal.journal.Journal`), and both folds of it: with and without what waits."""

    identity = "00000000-0000-7000-8000-000000000001"
    first = 1
    removed_until = 0.0

    def __init__(self) -> None:
        self.trouble: EtherError | None = None
        self.index_lags = False
        self.on_commit: Callable[[], None] = int  # nobody has to be called
        self.checkpoint: tuple[int, bytes] | None = None
        self.durable = History()
        """The fold of what is committed."""
        self.ends: dict[bytes, list[bytes]] = {}
        """{request id: its terminal responses} that are committed."""
        self._commits: list[Replayed] = []
        self.begin()

    def begin(self) -> None:
        """Open it for a broker: what was not committed never was."""
        self.live: History = pickle.loads(pickle.dumps(self.durable))
        """The fold of all that it was given."""
        self.live.ended.restarted()
        self.committed = self._tickets = 0
        self.waiting: list[Replayed | tuple[int, bytes]] = []
        """What is not committed."""

    @property
    def next(self) -> int:
        """See `Journal.next`."""
        return self.live.next

    def append(self, first: int, time: float, wall: float, envelopes: Sequence[bytes]) -> int:
        """See `Journal.append`."""
        assert first == self.live.next
        self.live.apply(first, time, wall, envelopes)
        self._tickets += 1
        self.waiting.append(Replayed(first, time, wall, list(envelopes)))
        return self._tickets

    def put_checkpoint(self, number: int, body: bytes) -> None:
        """See `Journal.put_checkpoint`."""
        self.waiting.append((number, body))

    def sync(self) -> None:
        """Commit all that waits."""
        for item in self.waiting:
            if isinstance(item, Replayed):
                self.durable.apply(*item)
                self._commits.append(item)
                self.committed += 1
                for envelope in outcomes_of(item.envelopes):
                    self.ends.setdefault(envelope[16:32], []).append(envelope)
            else:
                self.checkpoint = item
                self._commits = [commit for commit in self._commits if commit.first >= item[0]]
        self.waiting = []

    def read(self, number: int) -> Batch | None:
        """See `Journal.read`; nobody observes here."""
        return None

    def outcome(self, request_id: bytes) -> bytes | None:
        """See `Journal.outcome`."""
        return self.ends.get(request_id, [None])[-1]

    def replay(self) -> Iterator[Replayed]:
        """See `Journal.replay`."""
        return iter(list(self._commits))

    def close(self) -> None:
        """See `Journal.close`."""


def outcomes_of(envelopes: Sequence[bytes]) -> Iterator[bytes]:
    """The terminal responses among envelopes."""
    return (envelope for envelope in envelopes if envelope[0] == Kind.RESPONSE and envelope[1] not in _RUNNING)
