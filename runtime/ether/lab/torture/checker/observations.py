"""The rule on observers (G7): each sees every number once, in order, or is told which it missed, and sees what passed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ether.lab.report import Violation
from ether.lab.torture.history.history import Evidence

__all__ = ["chain", "faces", "gaps", "resumed", "rolling", "settled"]


def resumed(evidence: Evidence) -> Iterator[Violation]:
    """With a journal, numbers go on: after a broker's death, and in the next life of an observer."""
    if not evidence.has_journal:
        return
    for observations in evidence.observed:
        for before, after in pairwise(observations.stretches):
            if before.life == after.life:
                yield Violation(
                    "gap", f"{observations.name} was shown number {after.first} after number {before.next - 1}"
                )
            missing = (before.next, after.first - 1)
            if after.first > before.next and missing not in after.reported:
                text = f"{observations.name} came back and was not shown the numbers {missing[0]} to {missing[1]}"
                yield Violation("gap", text)


def rolling(evidence: Evidence) -> Iterator[Violation]:
    """The digest of all that an observer saw in one go is the journal's of the same numbers."""
    for message_log in evidence.message_logs:
        if message_log.path is None:
            continue
        from ether_broker.journal.sqlite.reader import JournalReader

        with JournalReader(message_log.path) as reader:
            for observations in evidence.observed:
                for stretch in observations.stretches:
                    if not stretch.breaks and reader.digest(stretch.first, stretch.next) != stretch.rolling:
                        text = f"{observations.name} has another digest than {message_log.source}"
                        yield Violation("faces", f"{text} of the numbers {stretch.first} to {stretch.next - 1}")


def chain(evidence: Evidence) -> Iterator[Violation]:
    """The journal's chain of hashes is whole."""
    for message_log in evidence.message_logs:
        if message_log.proof:
            yield Violation("chain", message_log.proof)


def gaps(evidence: Evidence) -> Iterator[Violation]:
    """Within a life, numbers have no gap that was not reported."""
    for observations in evidence.observed:
        for stretch in observations.stretches:
            for first, last in stretch.breaks:
                if (first, last) not in stretch.reported:
                    yield Violation(
                        "gap", f"{observations.name} was not shown the numbers {first} to {last}, and not told so"
                    )
            numbers = [message.number for message in stretch.messages]
            for one, other in pairwise(numbers):
                if other <= one:
                    yield Violation("gap", f"{observations.name} was shown number {other} after number {one}")
            skipped = sum(last - first + 1 for first, last in stretch.breaks)
            if missing := stretch.next - stretch.first - len(numbers) - skipped:
                yield Violation("gap", f"{observations.name} lacks {missing} messages from number {stretch.first} on")


def faces(evidence: Evidence) -> Iterator[Violation]:
    """A number has one message: the same for each observer, and the journal's where there is one."""
    for message_log in (message_log for message_log in evidence.message_logs if message_log.whole):
        known = {message.number: message.digest for message in message_log.messages}
        for observations in evidence.observed:
            for message in (message for stretch in observations.stretches for message in stretch.messages):
                if known.get(message.number) != message.digest:
                    text = f"{observations.name} saw another message {message.number} than {message_log.source} has"
                    yield Violation("faces", text)


def settled(evidence: Evidence) -> Iterator[Violation]:
    """When all was quiet, each observer had caught up."""
    for observations in evidence.observed:
        if observations.settled is not True:
            what = (
                "had not seen everything" if observations.settled is False else "never said that it had seen everything"
            )
            yield Violation("behind", f"{observations.name} {what} when the campaign ended")
