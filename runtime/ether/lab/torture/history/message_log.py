"""The messages that passed the broker, as an observer wrote them down, and as the journal has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ether.lab.torture.history.log import Line
from ether.lab.torture.history.message import passed
from ether_broker.envelope.status import INTERIM
from ether_broker.wire.frame import Kind

__all__ = ["Message", "MessageLog", "Observations", "Stretch", "messages_of", "read_journal", "read_observations"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message that passed the broker, as a diary or the journal has it."""

    number: int
    kind: int
    id: str
    """Of the delegation, hexadecimal."""
    status: int
    digest: str
    """Of all its bytes."""
    more: Any
    """A delegation's deadline by the broker's clock, an outcome's mark, an event's name."""
    at: float
    """When it passed, by the broker's clock, which on one machine is everybody's."""

    @property
    def is_outcome(self) -> bool:
        """Whether it ends a delegation."""
        return self.kind == Kind.RESPONSE and self.status not in INTERIM


@dataclass(slots=True)
class Stretch:
    """The messages that an observer saw of one broker in one of its lives."""

    life: int
    first: int
    next: int
    """The number that it waits for."""
    rolling: str = ""
    """The digest of all of them."""
    messages: list[Message] = field(default_factory=list)
    breaks: list[tuple[int, int]] = field(default_factory=list)
    """Numbers that it was not shown: (first, last)."""
    reported: list[tuple[int, int]] = field(default_factory=list)
    """Those of which it was told."""


@dataclass(slots=True)
class Observations:
    """The messages that one observer saw in all its lives."""

    name: str
    stretches: list[Stretch] = field(default_factory=list)
    settled: bool | None = None
    """Whether it had seen everything when it left; None if it never got to say."""


@dataclass(slots=True)
class MessageLog:
    """The messages that passed the broker, as one source tells them."""

    source: str
    messages: list[Message]
    whole: bool
    """Whether nothing can be missing: it is the journal."""
    path: Path | None = None
    """The journal's file."""
    proof: str = ""
    """What is wrong with the journal's chain of hashes; empty if it is whole."""


def read_observations(name: str, lines: Iterable[Line]) -> Observations:
    """Read an observer's log."""
    observations = Observations(name)
    life, gaps = 0, []
    current: Stretch | None = None
    for line in lines:
        match line["event"]:
            case "life":
                life += 1
                current = None
            case "gap":
                gaps.append((line["first"], line["last"]))
            case "settled":
                observations.settled = line["whole"]
            case "batch":
                current = _take(observations, current, line, life)
                current.reported.extend(gaps)
                gaps = []
    return observations


def _take(observations: Observations, current: Stretch | None, line: Line, life: int) -> Stretch:
    """Add a batch; one that begins below what was seen is another broker's, which counts anew."""
    if current is None or line["first"] < current.next:
        current = Stretch(life, line["first"], line["first"])
        observations.stretches.append(current)
    if line["first"] > current.next:
        current.breaks.append((current.next, line["first"] - 1))
    for number, kind, request_id, status, digest, more in line["messages"]:
        current.messages.append(Message(number, kind, request_id, status, digest, more, line["time"]))
    current.next = line["next"]
    current.rolling = line["rolling"]
    return current


def messages_of(observations: Observations) -> MessageLog:
    """What passed, as far as an observer saw it."""
    return MessageLog(
        observations.name, [message for stretch in observations.stretches for message in stretch.messages], whole=False
    )


def read_journal(path: Path) -> MessageLog:
    """What passed, as the journal has it.

    Raises:
        JournalUnavailable, JournalTooNew, JournalCorrupt: it cannot be read.
    """
    from ether_broker.journal.sqlite.reader import JournalReader

    with JournalReader(path) as reader:
        messages = []
        for record in reader.entries():
            number, kind, request_id, status, digest, more = passed(record.number, record.envelope)
            messages.append(Message(number, kind, request_id, status, digest, more, record.clock))
        problem = reader.verify().problem
    return MessageLog("the journal", messages, whole=True, path=path, proof=problem.message if problem else "")
