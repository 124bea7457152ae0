"""The messages that passed the broker, as an observer wrote them down, and as the journal has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ether.lab.torture.history.log import Line
from ether.lab.torture.history.message import Message, passed
from ether_broker.wire.frame import Kind

__all__ = ["MessageLog", "Observations", "Stretch", "read_journal", "read_observations"]


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

    @property
    def messages(self) -> list[Message]:
        """All of them."""
        return [message for stretch in self.stretches for message in stretch.messages]


@dataclass(frozen=True)
class MessageLog:
    """The messages that passed the broker, as one source tells them."""

    source: str
    messages: list[Message]
    path: Path | None = None
    """The journal's file, where nothing can be missing; None for what an observer saw."""
    proof: str = ""
    """What is wrong with the journal's chain of hashes; empty if it is whole."""

    @cached_property
    def delegations(self) -> Mapping[str, Message]:
        """{delegation: its message}."""
        return {message.id: message for message in self.messages if message.kind == Kind.DELEGATION}

    @cached_property
    def outcomes(self) -> Mapping[str, list[Message]]:
        """{delegation: its outcomes}."""
        found: dict[str, list[Message]] = defaultdict(list)
        for message in self.messages:
            if message.is_outcome:
                found[message.id].append(message)
        return found


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
                if (
                    current is None or line["first"] < current.next
                ):  # below what was seen: another broker counts from zero
                    current = Stretch(life, line["first"], line["first"])
                    observations.stretches.append(current)
                if line["first"] > current.next:
                    current.breaks.append((current.next, line["first"] - 1))
                current.messages += [Message(*fields) for fields in line["messages"]]
                current.next, current.rolling = line["next"], line["rolling"]
                current.reported += gaps
                gaps = []
    return observations


def read_journal(path: Path) -> MessageLog:
    """What passed, as the journal has it.

    Raises:
        JournalUnavailable, JournalTooNew, JournalCorrupt: it cannot be read.
    """
    from ether_broker.journal.sqlite.reader import JournalReader

    with JournalReader(path) as reader:
        messages = [passed(record.number, record.envelope, record.clock) for record in reader.entries()]
        problem = reader.verify().problem
    return MessageLog("the journal", messages, path, problem.message if problem else "")
