"""The rule on outcomes (G1, G2): whatever was accepted has one outcome, and everybody has been told the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ether.lab.report import Violation
from ether.lab.torture.history.history import Evidence
from ether.lab.torture.history.message_log import Message, MessageLog
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind

__all__ = ["double", "lost", "never_left", "other", "progress_in_order", "uncollected"]


_NEVER: Final = {"fail": "the link refused it", "unheard": "the bus knew nothing of it"}
_UNWRITTEN: Final = "journal_unavailable"
"""The one outcome that no message log has: it is told because there is none at the moment."""


def lost(evidence: Evidence) -> Iterator[Violation]:
    """Nobody waits for ever: a delegator that lives is told an outcome, and what was accepted has one in the message log.

    What it has given up itself is not sent again, and the broker need not know of it.
    """
    for op in evidence.roots:
        if not evidence.endings.get(op.id) and op.life == len(evidence.lives[op.by]):
            yield Violation("lost", f"{op.by} asked for {op.capability} and was never told an outcome", op.id)
    for request_id, endings in evidence.endings.items():
        asked = evidence.ops.get(request_id)
        if asked is not None and endings[0].kind == "unheard" and endings[0].life == asked.life:
            yield Violation("lost", f"{asked.by} sent it and lives, and the broker knew nothing of it", request_id)
    for message_log in evidence.message_logs:
        if message_log.whole:
            ended = {message.id for message in message_log.messages if message.is_outcome}
            for message in message_log.messages:
                if message.kind == Kind.DELEGATION and message.id not in ended:
                    text = f"number {message.number} of {message_log.source} was accepted and never ended"
                    yield Violation("lost", text, message.id)


def double(evidence: Evidence) -> Iterator[Violation]:
    """A delegation ends once."""
    for message_log in evidence.message_logs:
        for request_id, found in _outcomes(message_log).items():
            if len(found) > 1:
                said = ", ".join(f"{Status(message.status).name} (number {message.number})" for message in found)
                yield Violation("double", f"{message_log.source} has several outcomes: {said}", request_id)
    for request_id, endings in evidence.endings.items():
        told = [ending for ending in endings if ending.kind == "ok"]
        if len({ending.mark for ending in told}) > 1:
            said = ", ".join(ending.status for ending in told)
            yield Violation("double", f"the delegator was told different outcomes: {said}", request_id)
        elif any(one.life == other.life for one, other in pairwise(told)):
            yield Violation("double", f"one life of the delegator was told twice: {told[0].status}", request_id)


def uncollected(evidence: Evidence) -> Iterator[Violation]:
    """With a journal, a delegator is told the outcome of all that was accepted, if need be in another life."""
    for message_log in evidence.message_logs:
        if not message_log.whole:
            continue
        for message in message_log.messages:
            op = evidence.ops.get(message.id)
            if message.is_outcome and op is not None and op.parent is None and evidence.lives[op.by][-1].finished:
                told = evidence.endings.get(message.id, ())
                if not any(ending.kind == "ok" for ending in told):
                    said = f"{Status(message.status).name} (number {message.number})"
                    yield Violation(
                        "uncollected", f"{message_log.source} has {said}, and {op.by} was never told", message.id
                    )


def other(evidence: Evidence) -> Iterator[Violation]:
    """What the delegator was told is what passed the broker."""
    told = {ending.id: ending for ending in evidence.told if ending.kind == "ok" and ending.code != _UNWRITTEN}
    for message_log in evidence.message_logs:
        outcomes = _outcomes(message_log)
        for request_id, ending in told.items():
            found = outcomes.get(request_id, ())
            if all(message.more != ending.mark for message in found) and (found or message_log.whole):
                said = Status(found[0].status).name if found else "nothing"
                yield Violation(
                    "other", f"the delegator was told {ending.status}, {message_log.source} has {said}", request_id
                )


def never_left(evidence: Evidence) -> Iterator[Violation]:
    """What a full link refused was not accepted, nor what the bus says it knows nothing of."""
    for message_log in evidence.message_logs:
        passed = {message.id for message in message_log.messages if message.kind == Kind.DELEGATION}
        for ending in evidence.told:
            is_refused = ending.kind == "ok" and ending.code == _UNWRITTEN
            why = "it was refused without a journal" if is_refused else _NEVER.get(ending.kind)
            if ending.id in passed and why is not None:
                yield Violation("never-left", f"{why}, and {message_log.source} has it", ending.id)


def progress_in_order(evidence: Evidence) -> Iterator[Violation]:
    """The progress of one run comes in its order (G9)."""
    for ending in evidence.told:
        if ending.disordered:
            yield Violation("order", f"{ending.disordered} steps of its progress came out of order", ending.id)


def _outcomes(message_log: MessageLog) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = defaultdict(list)
    for message in message_log.messages:
        if message.is_outcome:
            found[message.id].append(message)
    return found
