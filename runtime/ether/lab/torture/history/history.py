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

from ether.lab.torture.history.log import Line, read_log
from ether.lab.torture.history.message_log import MessageLog, Observations, messages_of, read_journal, read_observations
from ether.lab.torture.history.outage import Outage, Outages, read_outages
from ether_broker.errors import UsageError

__all__ = ["Ending", "Evidence", "Life", "Op", "Run", "read_evidence"]

_ENDINGS: Final = frozenset({"ok", "unknown", "fail", "unheard"})


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
    kind: str
    """`ok`: the bus said so; `unknown`: nobody knows; `fail`: it never left; `unheard`: the bus knows nothing of it."""
    status: str
    code: str
    mark: str
    at: float
    life: int
    attempt: int = 1
    disordered: int = 0
    collected: bool = False
    """Whether it came to a later life than the one that asked."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a handler."""

    id: str
    attempt: int
    capability: str
    node: str
    pid: int
    start: float
    end: float | None = None
    how: str = ""
    """`returned`, `raised` or `cancelled`; empty if it never ended."""


@dataclass(slots=True)
class Life:
    """One life of a delegator's process."""

    number: int
    begin: float
    finished: bool = False
    left: bool = False
    """Whether it ended in order."""


@dataclass(slots=True)
class Evidence:
    """The evidence of a campaign: all that its processes wrote down, read and put in order."""

    settings: Mapping[str, Any]
    ops: dict[str, Op] = field(default_factory=dict)
    endings: dict[str, list[Ending]] = field(default_factory=lambda: defaultdict(list))
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    lives: dict[str, list[Life]] = field(default_factory=dict)
    """{delegator: its lives}."""
    outages: Outages = field(default_factory=Outages)
    observed: list[Observations] = field(default_factory=list)
    """What each observer saw."""
    message_logs: list[MessageLog] = field(default_factory=list)
    """What passed the broker, from each source that tells."""
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
    def has_journal(self) -> bool:
        """Whether what was accepted had to survive the broker."""
        return str(self.settings["durability"]) == "journal"

    @property
    def struck(self) -> list[Outage]:
        """What the nemesis did, in order."""
        return self.outages.all


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
    evidence.message_logs = (
        [read_journal(journal)]
        if journal.exists()
        else [messages_of(observations) for observations in evidence.observed]
    )
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
                lives.append(Life(len(lives) + 1, line["at"]))
            case "finished":
                lives[-1].finished = True
            case "leaving":
                lives[-1].left = True
            case _:
                _read_op(line, len(lives), evidence)


def _read_runs(lines: Iterable[Line], evidence: Evidence) -> None:
    running: dict[tuple[str, int], int] = {}
    for line in lines:
        if line["event"] not in {"start", "end"}:
            _read_op(line, 0, evidence)
            continue
        key = (_key(line["id"]), line["attempt"])
        runs = evidence.runs[key[0]]
        if line["event"] == "start":
            running[key] = len(runs)
            runs.append(Run(*key, line["capability"], line["node"], line["pid"], line["at"]))
        elif key in running:
            run = runs[running.pop(key)]
            runs[runs.index(run)] = Run(*key, run.capability, run.node, run.pid, run.start, line["at"], line["how"])


def _read_op(line: Line, life: int, evidence: Evidence) -> None:
    if line["event"] == "invoke":
        key, parent = _key(line["id"]), line.get("parent")
        evidence.ops[key] = Op(
            key, line["by"], line["capability"], line["timeout"], line["at"], life, _key(parent) if parent else None
        )
    elif line["event"] in _ENDINGS:
        key = _key(line["id"])
        evidence.endings[key].append(
            Ending(
                key, line["event"], line.get("status", ""), line.get("code", ""), line.get("mark", ""), line["at"], life,
                line.get("attempt", 1),
                line.get("disordered", 0), line.get("collected", False),
            )
        )  # fmt: skip


def _key(request_id: str) -> str:
    """A request id as the message log has it: hexadecimal."""
    return request_id.replace("-", "")
