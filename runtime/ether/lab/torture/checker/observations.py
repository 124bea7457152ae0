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
    for observer in evidence.observed:
        for before, after in pairwise(observer.stretches):
            last, missing = before.next - 1, (before.next, after.first - 1)
            if before.life == after.life:
                yield Violation("gap", f"{observer.name} was shown number {after.first} after number {last}")
            if after.first > before.next and missing not in after.reported:
                text = f"{observer.name} came back and was not shown the numbers {missing[0]} to {missing[1]}"
                yield Violation("gap", text)


def rolling(evidence: Evidence) -> Iterator[Violation]:
    """The digest of all that an observer saw in one go is the journal's of the same numbers."""
    from ether_broker.journal.sqlite.reader import JournalReader

    for journal in evidence.journals:
        assert journal.path is not None
        with JournalReader(journal.path) as reader:
            for observer in evidence.observed:
                for stretch in observer.stretches:
                    if not stretch.breaks and reader.digest(stretch.first, stretch.next) != stretch.rolling:
                        text = f"{observer.name} has another digest than {journal.source}"
                        yield Violation("faces", f"{text} of the numbers {stretch.first} to {stretch.next - 1}")


def chain(evidence: Evidence) -> Iterator[Violation]:
    """The journal's chain of hashes is whole."""
    for journal in evidence.journals:
        if journal.proof:
            yield Violation("chain", journal.proof)


def gaps(evidence: Evidence) -> Iterator[Violation]:
    """Within a life, numbers have no gap that was not reported."""
    for observer in evidence.observed:
        for stretch in observer.stretches:
            for first, last in stretch.breaks:
                if (first, last) not in stretch.reported:
                    text = f"{observer.name} was not shown the numbers {first} to {last}, and not told so"
                    yield Violation("gap", text)
            for one, other in pairwise(message.number for message in stretch.messages):
                if other <= one:
                    yield Violation("gap", f"{observer.name} was shown number {other} after number {one}")
            skipped = sum(last - first + 1 for first, last in stretch.breaks)
            if missing := stretch.next - stretch.first - len(stretch.messages) - skipped:
                yield Violation("gap", f"{observer.name} lacks {missing} messages from number {stretch.first} on")


def faces(evidence: Evidence) -> Iterator[Violation]:
    """A number has one message: the same for each observer as in the journal, where there is one."""
    for journal in evidence.journals:
        known = {message.number: message.digest for message in journal.messages}
        for observer in evidence.observed:
            for message in observer.messages:
                if known.get(message.number) != message.digest:
                    text = f"{observer.name} saw another message {message.number} than {journal.source} has"
                    yield Violation("faces", text)


def settled(evidence: Evidence) -> Iterator[Violation]:
    """When all was quiet, each observer had caught up."""
    said = {False: "had not seen everything", None: "never said that it had seen everything"}
    for observer in evidence.observed:
        if observer.settled is not True:
            yield Violation("behind", f"{observer.name} {said[observer.settled]} when the campaign ended")
