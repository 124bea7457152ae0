"""The evidence: what the logs of a campaign say, put in order. Reads a folder, and knows nothing else.

FOLDER/campaign.json             the settings
       history/DELEGATOR.jsonl   what it asked, and what it was told
       runs/NODE.PID.jsonl       which handlers ran, and what they passed on
       observed/OBSERVER.jsonl   number and digest of every message that it was shown
       nemesis.jsonl             who was struck, who was down when
       after.json                what was left when all was over
       journal.db                what the broker has kept
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from ether.lab.torture.history.log import Line, read_log
from ether.lab.torture.history.message_log import MessageLog, Observations, read_journal, read_observations
from ether.lab.torture.history.outage import Outages, read_outages
from ether_broker.errors import UsageError

__all__ = ["Ending", "Evidence", "Op", "Run", "read_evidence"]


@dataclass(frozen=True, slots=True)
class Op:
    """A delegation as its delegator wrote it down."""

    id: str
    by: str
    """The agent that asked."""
    capability: str
    timeout: float
    at: float
    life: int
    """Of the delegator's process, from 1; 0 for a sub-delegation."""
    parent: str | None = None
    """The delegation whose handler asked."""

    @property
    def idempotent(self) -> bool:
        """Whether it may run twice."""
        return self.capability.endswith("again")


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome that a campaign's delegator was told."""

    id: str
    event: str
    """`ok`: the bus said so; `unknown`: nobody knows; `fail`: it never left; `unheard`: the bus knows nothing of it."""
    at: float
    life: int
    status: str = ""
    code: str = ""
    mark: str = ""
    attempt: int = 1
    disordered: int = 0
    collected: bool = False
    """Whether it came to a later life than the one that asked."""


@dataclass(slots=True)
class Run:
    """One run of a handler."""

    id: str
    attempt: int
    capability: str
    node: str
    pid: int
    at: float
    """When it began."""
    end: float | None = None
    how: str = ""
    """`returned`, `raised` or `cancelled`; empty if it never ended."""


_OP: Final = TypeAdapter(Op)
_ENDING: Final = TypeAdapter(Ending)
_RUN: Final = TypeAdapter(Run)


@dataclass(slots=True)
class Evidence:
    """The evidence of a campaign: all that its processes wrote down, read and put in order."""

    settings: Mapping[str, Any]
    ops: dict[str, Op] = field(default_factory=dict)
    endings: dict[str, list[Ending]] = field(default_factory=lambda: defaultdict(list))
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    lives: dict[str, list[bool]] = field(default_factory=dict)
    """{delegator: of each of its lives, whether it got through its share}."""
    outages: Outages = field(default_factory=Outages)
    observed: list[Observations] = field(default_factory=list)
    """What each observer saw."""
    message_logs: list[MessageLog] = field(default_factory=list)
    """What passed the broker, from each source that tells: the journal, or else the observers."""
    left: Mapping[str, list[str]] = field(default_factory=dict)
    """What was left when all was over: {kind: what}."""

    @property
    def roots(self) -> list[Op]:
        """What delegators asked; the rest are sub-delegations."""
        return [op for op in self.ops.values() if op.parent is None]

    @property
    def told(self) -> list[Ending]:
        """All endings of all delegations."""
        return [ending for endings in self.endings.values() for ending in endings]

    @property
    def answers(self) -> list[Ending]:
        """Those of them that the bus said."""
        return [ending for ending in self.told if ending.event == "ok"]

    @property
    def journals(self) -> list[MessageLog]:
        """The journal, where there is one: nothing can be missing in it."""
        return [message_log for message_log in self.message_logs if message_log.path is not None]

    @property
    def has_journal(self) -> bool:
        """Whether what was accepted had to survive the broker."""
        return str(self.settings["durability"]) == "journal"


def read_evidence(folder: Path) -> Evidence:
    """Read all logs of a campaign.

    Raises:
        UsageError: the folder is not one of a campaign, or a log is broken otherwise than a kill does it.
    """
    evidence = Evidence(_document(folder / "campaign.json"))
    for path in sorted(folder.glob("history/*.jsonl")):
        _read_history(path.stem, read_log(path), evidence)
    for path in sorted(folder.glob("runs/*.jsonl")):
        _read_runs(read_log(path), evidence)
    evidence.outages = read_outages(read_log(folder / "nemesis.jsonl"))
    evidence.observed = [
        read_observations(path.stem, read_log(path)) for path in sorted(folder.glob("observed/*.jsonl"))
    ]
    journal = folder / "journal.db"
    if journal.exists():
        evidence.message_logs = [read_journal(journal)]
    else:
        evidence.message_logs = [MessageLog(observer.name, observer.messages) for observer in evidence.observed]
    evidence.left = _document(folder / "after.json")
    return evidence


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} is missing: name a folder that `ether torture --keep` has written.") from None
    assert isinstance(document, dict)
    return document


def _read_history(name: str, lines: Iterable[Line], evidence: Evidence) -> None:
    lives = evidence.lives[name] = []
    for line in lines:
        match line["event"]:
            case "life":
                lives.append(False)
            case "finished":
                lives[-1] = True
            case _:
                _read_op(line, len(lives), evidence)


def _read_runs(lines: Iterable[Line], evidence: Evidence) -> None:
    running: dict[tuple[str, int], Run] = {}
    for line in lines:
        match line["event"]:
            case "start":
                run = running[line["id"], line["attempt"]] = _RUN.validate_python(_with_key(line))
                evidence.runs[run.id].append(run)
            case "end":
                if run_ := running.pop((line["id"], line["attempt"]), None):
                    run_.end, run_.how = line["at"], line["how"]
            case _:
                _read_op(line, 0, evidence)


def _read_op(line: Line, life: int, evidence: Evidence) -> None:
    match line["event"]:
        case "invoke":
            op = _OP.validate_python(_with_key(line, life=life))
            evidence.ops[op.id] = op
        case "ok" | "unknown" | "fail" | "unheard":
            ending = _ENDING.validate_python(_with_key(line, life=life))
            evidence.endings[ending.id].append(ending)


def _with_key(line: Line, **more: object) -> Line:
    """A line with its request ids as the message log has them: hexadecimal."""
    return {**line, **more, **{name: line[name].replace("-", "") for name in ("id", "parent") if line.get(name)}}
