"""The rule on outcomes (G1, G2): whatever was accepted has one outcome, and everybody has been told the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.history.history import Evidence
from ether_broker.envelope.status import Status

__all__ = ["double", "lost", "never_left", "other", "progress_in_order", "uncollected"]


_NEVER: Final = {"fail": "the link refused it", "unheard": "the bus knew nothing of it"}
_UNWRITTEN: Final = "journal_unavailable"
"""The one outcome that no message log has: it is told because there is none at the moment."""


def lost(evidence: Evidence) -> Iterator[Violation]:
    """Nobody waits for ever: a delegator that lives is told an outcome, and what was accepted has one in the journal.

    What it has given up itself is not sent again, and the broker need not know of it.
    """
    for op in evidence.roots:
        endings = evidence.endings.get(op.id)
        if not endings and op.life == len(evidence.lives[op.by]):
            yield Violation("lost", f"{op.by} asked for {op.capability} and was never told an outcome", op.id)
        elif endings and endings[0].event == "unheard" and endings[0].life == op.life:
            yield Violation("lost", f"{op.by} sent it and lives, and the broker knew nothing of it", op.id)
    for journal in evidence.journals:
        for request_id, message in journal.delegations.items():
            if request_id not in journal.outcomes:
                text = f"number {message.number} of {journal.source} was accepted and never ended"
                yield Violation("lost", text, request_id)


def double(evidence: Evidence) -> Iterator[Violation]:
    """A delegation ends once."""
    for message_log in evidence.message_logs:
        for request_id, found in message_log.outcomes.items():
            if len(found) > 1:
                said = ", ".join(f"{Status.of_code(message.status)} (number {message.number})" for message in found)
                yield Violation("double", f"{message_log.source} has several outcomes: {said}", request_id)
    for request_id, endings in evidence.endings.items():
        told = [ending for ending in endings if ending.event == "ok"]
        if len({ending.mark for ending in told}) > 1:
            said = ", ".join(ending.status for ending in told)
            yield Violation("double", f"the delegator was told different outcomes: {said}", request_id)
        elif any(one.life == other.life for one, other in pairwise(told)):
            yield Violation("double", f"one life of the delegator was told twice: {told[0].status}", request_id)


def uncollected(evidence: Evidence) -> Iterator[Violation]:
    """With a journal, a delegator is told the outcome of all that was accepted, if need be in another life."""
    answered = {ending.id for ending in evidence.answers}
    for journal in evidence.journals:
        for op in evidence.roots:
            if op.id not in answered and evidence.lives[op.by][-1]:
                for message in journal.outcomes.get(op.id, ()):
                    said = f"{Status.of_code(message.status)} (number {message.number})"
                    yield Violation("uncollected", f"{journal.source} has {said}, and {op.by} was never told", op.id)


def other(evidence: Evidence) -> Iterator[Violation]:
    """What the delegator was told is what passed the broker."""
    told = {ending.id: ending for ending in evidence.answers if ending.code != _UNWRITTEN}
    for message_log in evidence.message_logs:
        for request_id, ending in told.items():
            found = message_log.outcomes.get(request_id, ())
            if all(message.more != ending.mark for message in found) and (found or message_log.path is not None):
                said = Status.of_code(found[0].status) if found else "nothing"
                text = f"the delegator was told {ending.status}, {message_log.source} has {said}"
                yield Violation("other", text, request_id)


def never_left(evidence: Evidence) -> Iterator[Violation]:
    """What a full link refused was not accepted, nor what the bus says it knows nothing of."""
    for message_log in evidence.message_logs:
        for ending in evidence.told:
            is_refused = ending.event == "ok" and ending.code == _UNWRITTEN
            why = "it was refused without a journal" if is_refused else _NEVER.get(ending.event)
            if why is not None and ending.id in message_log.delegations:
                yield Violation("never-left", f"{why}, and {message_log.source} has it", ending.id)


def progress_in_order(evidence: Evidence) -> Iterator[Violation]:
    """The progress of one run comes in its order (G9)."""
    for ending in evidence.told:
        if ending.disordered:
            yield Violation("order", f"{ending.disordered} steps of its progress came out of order", ending.id)
