"""What `Journal` promises, held by every kind that keeps something: SQLite, memory, and what is added to `kinds.py`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ether_broker.envelope.status import Status
from ether_broker.errors import Closed, InternalError
from ether_broker.journal.journal import Journal, Removed, Replayed
from ether_broker.wire.frame import MAX_FRAME_BYTES, Flag, mark
from tests.broker.journal.kinds import KINDS, Opener
from tests.broker.journal.support import delegation, put, request, response, settle

TERMINAL = [status for status in Status if status.is_terminal and status is not Status.TIMEOUT]


@pytest.fixture(params=KINDS)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the journal under test; all openings are closed at the end."""
    open_it = KINDS[request.param](tmp_path)
    with contextlib.ExitStack() as stack:

        def opened() -> Journal:
            journal = open_it()
            stack.callback(journal.close)
            return journal

        yield opened


@pytest.fixture
def journal(opener: Opener) -> Journal:
    return opener()


def numbered(journal: Journal, start: int | None = None) -> list[tuple[int, bytes]]:
    """All that a replay gives, by number."""
    return [
        (number, envelope)
        for batch in journal.replay(start)
        for number, envelope in enumerate(batch.envelopes, batch.first)
    ]


def checkpointed(journal: Journal, number: int, body: bytes = b"state", *, wall: float = 9e9) -> None:
    """Put a checkpoint, and wait until it is durable."""
    journal.put_checkpoint(number, body)
    settle(journal, journal.append(journal.next, 0.0, wall, []))


# -- position ------------------------------------------------------------------------------------------------------


def test_a_new_journal_is_empty_and_has_an_identity_of_its_own(journal: Journal, tmp_path: Path):
    assert (journal.next, journal.first, journal.committed) == (1, 1, 0)
    assert (journal.trouble, journal.checkpoint, journal.removed_until) == (None, None, 0.0)
    assert len(journal.identity) == 36
    assert numbered(journal) == []
    assert (journal.read(0), journal.read(1), journal.outcome(bytes(16))) == (None, None, None)


def test_tickets_rise_by_one_and_numbers_by_what_is_appended(journal: Journal):
    tickets = [journal.append(journal.next, 0.0, 0.0, [b"a", b"b"][:count]) for count in (2, 0, 1)]
    settle(journal, tickets[-1])

    assert tickets == [1, 2, 3]
    assert (journal.next, journal.committed) == (4, 3)


def test_a_number_is_given_once_and_may_be_skipped(journal: Journal):
    put(journal, [b"a"])
    with pytest.raises(InternalError, match="Envelope 1 is appended where 2 is due"):
        journal.append(1, 0.0, 0.0, [b"b"])
    settle(journal, journal.append(10, 0.0, 0.0, [b"c"]))

    assert journal.next == 11
    assert numbered(journal) == [(1, b"a"), (10, b"c")]


def test_an_append_is_durable_when_it_returns_or_is_told_of_when_it_is(journal: Journal):
    told = threading.Event()
    seen: list[int] = []

    def note() -> None:
        seen.append(journal.committed)
        told.set()

    journal.on_commit = note
    ticket = journal.append(1, 0.0, 0.0, [b"a"])

    assert told.wait(10) or journal.committed == ticket
    settle(journal, ticket)
    assert seen in ([], [ticket])


# -- what is durable -----------------------------------------------------------------------------------------------


def test_who_opens_it_again_finds_all_that_was_durable_as_it_was_appended(opener: Opener):
    journal = opener()
    identity = journal.identity
    put(journal, [b"one", b"two"], time=1.5, wall=1000.5)
    put(journal, [b"three"], time=2.5, wall=1001.5)
    checkpointed(journal, 1, b"nothing yet")
    journal.close()

    again = opener()

    assert (again.identity, again.next, again.first, again.committed) == (identity, 4, 1, 0)
    assert list(again.replay()) == [Replayed(1, 1.5, 1000.5, [b"one", b"two"]), Replayed(3, 2.5, 1001.5, [b"three"])]
    assert again.checkpoint == (1, b"nothing yet")


def test_closing_commits_what_is_queued(opener: Opener):
    journal = opener()
    for number in range(1, 201):
        journal.append(number, 0.0, 0.0, [b"%d" % number])
    journal.close()

    assert numbered(opener()) == [(number, b"%d" % number) for number in range(1, 201)]


def test_after_closing_it_takes_and_tells_nothing_and_is_closed_again_in_peace(journal: Journal):
    put(journal, [b"a"])
    journal.close()
    journal.close()

    for ask in (
        lambda: journal.append(2, 0.0, 0.0, [b"b"]),
        lambda: journal.put_checkpoint(1, b""),
        lambda: journal.read(1),
        lambda: journal.outcome(bytes(16)),
        lambda: journal.checkpoint,
        lambda: journal.gc(0.0),
    ):
        with pytest.raises(Closed):
            ask()


# -- reading -------------------------------------------------------------------------------------------------------


def test_a_batch_is_read_by_any_of_its_numbers(journal: Journal):
    put(journal, [b"one"])
    put(journal, [b"two", b"three"], time=2.0)
    settle(journal, journal.append(10, 3.0, 1.0, [b"ten"]))

    for number in (2, 3):
        assert journal.read(number) == (2, 2.0, [b"two", b"three"], 8)
    assert journal.read(10) == (10, 3.0, [b"ten"], 3)
    assert [journal.read(number) for number in (0, 4, 9, 11)] == [None] * 4


def test_a_large_batch_is_read_in_parts_that_fit_into_frames(journal: Journal):
    envelopes = [bytes([index]) * 300_000 for index in range(10)] + [b"z" * (MAX_FRAME_BYTES + 1)]
    put(journal, envelopes)

    read: list[bytes] = []
    while batch := journal.read(len(read) + 1):
        assert batch.first == len(read) + 1
        assert batch.size <= MAX_FRAME_BYTES or len(batch.envelopes) == 1
        read += batch.envelopes

    assert read == envelopes


@pytest.mark.parametrize("status", TERMINAL)
def test_the_outcome_of_a_delegation_is_the_first_that_is_terminal(journal: Journal, status: Status):
    end = response(1, status, payload=b"y" * 9000)
    put(
        journal,
        [delegation(1), delegation(2), *(response(1, interim) for interim in (Status.ACCEPTED, Status.PROGRESS))],
    )
    put(journal, [end, response(1, Status.COMPLETED, payload=b"late")])

    assert journal.outcome(request(1)) == end
    assert journal.outcome(request(2)) is None
    assert journal.outcome(request(3)) is None


def test_the_outcome_of_what_was_accepted_goes_before_refusals_and_of_those_the_last_counts(journal: Journal):
    refusals = [mark(response(1, Status.REJECTED_CAPABILITY, payload=text), Flag.REFUSED) for text in (b"a", b"b")]
    put(journal, [delegation(1), refusals[0]])
    put(journal, [delegation(1), refusals[1]])
    assert journal.outcome(request(1)) == refusals[1]

    put(journal, [delegation(1), response(1)])
    put(journal, [refusals[0]])

    assert journal.outcome(request(1)) == response(1)


def test_large_payloads_come_back_to_the_byte(journal: Journal):
    payload = bytes(range(256)) * 400
    envelopes = [delegation(1, payload=payload), delegation(2, payload=payload), response(2, payload=payload)]
    for envelope in envelopes:
        put(journal, [envelope])

    assert [envelope for _, envelope in numbered(journal)] == envelopes
    assert journal.outcome(request(2)) == envelopes[2]


# -- checkpoints and replay ----------------------------------------------------------------------------------------


def test_a_replay_begins_at_the_last_checkpoint_or_where_it_is_told_to(opener: Opener):
    journal = opener()
    put(journal, [b"one", b"two", b"three"])
    checkpointed(journal, 1, b"old")
    checkpointed(journal, 3, b"new")
    put(journal, [b"four"], time=4.0, wall=4.0)
    journal.close()

    again = opener()

    assert again.checkpoint == (3, b"new")
    assert numbered(again) == [(3, b"three"), (4, b"four")]
    assert numbered(again, 2) == [(2, b"two"), (3, b"three"), (4, b"four")]
    assert numbered(again, 5) == []


def test_a_replay_is_of_what_was_there_when_it_began(journal: Journal):
    for number in range(1, 5):
        put(journal, [b"%d" % number])
    replayed = journal.replay()
    first = next(replayed)
    put(journal, [b"5"])

    assert [first.envelopes, *(batch.envelopes for batch in replayed)] == [[b"1"], [b"2"], [b"3"], [b"4"]]


def test_a_checkpoint_of_the_future_is_refused(journal: Journal):
    with pytest.raises(InternalError, match="A checkpoint is taken at 2 where 1 is due"):
        journal.put_checkpoint(2, b"")


# -- giving up what is old -----------------------------------------------------------------------------------------


def fill(journal: Journal) -> None:
    """Thirty commits of ten, a second apart from 1000 s on."""
    for index in range(30):
        put(journal, [response(index * 10 + n) for n in range(10)], wall=1000.0 + index)


def test_what_is_old_and_below_the_checkpoint_goes(opener: Opener):
    journal = opener()
    fill(journal)
    checkpointed(journal, 301)

    removed = journal.gc(1015.0)

    assert removed[:2] == (15, 150)
    assert (journal.first, journal.removed_until, journal.next) == (151, 1014.0, 301)
    assert (journal.read(150), journal.outcome(request(149))) == (None, None)
    assert journal.read(151) is not None
    assert journal.outcome(request(150)) == response(150)
    assert [number for number, _ in numbered(journal, 1)] == [*range(151, 301)]
    journal.close()
    again = opener()
    assert (again.first, again.removed_until, again.next, again.checkpoint) == (151, 1014.0, 301, (301, b"state"))


@pytest.mark.parametrize(("number", "left"), [(None, 1), (1, 1), (155, 151), (301, 301)])
def test_what_the_checkpoint_does_not_cover_stays(journal: Journal, number: int | None, left: int):
    fill(journal)
    if number is not None:
        checkpointed(journal, number)

    journal.gc(9999.0)

    assert journal.first == left
    assert [number for number, _ in numbered(journal)] == [*range(number or 1, 301)]


def test_what_is_behind_something_that_stays_stays_and_the_latest_time_that_went_is_known(journal: Journal):
    for wall in (1000.0, 1700.0, 1500.0, 1600.0):
        put(journal, [b"one"], wall=wall)
    checkpointed(journal, 5)

    journal.gc(1650.0)
    first = journal.first, journal.removed_until
    journal.gc(1900.0)

    assert first == (2, 1000.0)
    assert (journal.first, journal.removed_until) == (5, 1700.0)
    assert journal.gc(1900.0)[:2] == Removed()[:2]


def test_all_may_go_and_the_numbers_go_on(opener: Opener):
    journal = opener()
    fill(journal)
    checkpointed(journal, 301)
    journal.gc(9999.0)
    journal.close()

    again = opener()

    assert (again.first, again.next, numbered(again, 1)) == (301, 301, [])
    assert put(again, [b"more"]) == 301
    assert numbered(again) == [(301, b"more")]


def test_it_takes_more_while_it_gives_up_what_is_old(journal: Journal):
    fill(journal)
    checkpointed(journal, 301)
    removed: list[Removed] = []
    thread = threading.Thread(target=lambda: removed.append(journal.gc(9999.0)))
    thread.start()
    for _ in range(20):
        put(journal, [b"more"], wall=30_000.0)
    thread.join(10)

    assert removed[0].commits == 30
    assert journal.next == 321
    assert len(numbered(journal, 1)) == 20
