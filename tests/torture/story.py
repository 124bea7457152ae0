"""A hand-made campaign: diaries as its processes would have written them, good until a test spoils them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from ether.torture.checker import check
from ether.torture.settings import Settings
from ether_broker.status import Status
from ether_broker.wire import Kind

__all__ = ["Story"]

Line = dict[str, Any]


class Story:
    """The diaries, as lists of lines that a test may change before they are written.

    Args:
        folder: an empty one, or none yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = Settings(delegations=1, seed=7).plain()
        self.history: dict[str, list[Line]] = defaultdict(list)
        self.runs: dict[str, list[Line]] = defaultdict(list)
        self.observed: dict[str, list[Line]] = defaultdict(list)
        self.nemesis: list[Line] = []
        self.left: dict[str, list[str]] = {"processes": [], "sockets": [], "files": []}
        self.tell("delegator-1", "life", 100.0)
        self.see("observer-1", "life", 99.0)

    def tell(self, name: str, event: str, at: float, /, **fields: object) -> Line:
        """A line of a delegator."""
        return _add(self.history[name], event, at, fields)

    def run(self, node: str, event: str, at: float, /, **fields: object) -> Line:
        """A line of a node."""
        return _add(self.runs[node], event, at, fields)

    def see(self, name: str, event: str, at: float, /, **fields: object) -> Line:
        """A line of an observer."""
        return _add(self.observed[name], event, at, fields)

    def strike(self, name: str, action: str, begin: float, pid: int, **fields: object) -> Line:
        """A line of the nemesis."""
        known = {"number": 1, "victim": name.partition("-")[0], "seconds": 0.0}
        return _add(
            self.nemesis,
            "strike",
            begin,
            {**known, "name": name, "action": action, "pid": pid, "begin": begin, **fields},
        )

    def happen(self, event: str, at: float, /, **fields: object) -> Line:
        """Another line of the nemesis."""
        return _add(self.nemesis, event, at, fields)

    def done(
        self, key: str = "d1", at: float = 101.0, *, word: str = "once", status: str = "COMPLETED", code: str = "",
        took: float = 0.5, node: str = "node-1", timeout: float = 10.0, mark: str = "m1",
    ) -> None:  # fmt: skip
        """One delegation as it should go: asked, run, ended, and seen by the observer."""
        capability = f"torture.quick.{word}"
        self.tell(
            "delegator-1", "invoke", at, id=key, index=0, capability=capability, timeout=timeout, by="delegator-1"
        )
        if status == "COMPLETED":
            self.run(node, "start", at + 0.01, id=key, attempt=1, capability=capability, node=node, pid=11)
            self.run(node, "end", at + took - 0.01, id=key, attempt=1, how="returned")
        self.tell("delegator-1", "ok", at + took, id=key, status=status, code=code, attempt=1, mark=mark)
        self.passes(delegation(key, at + timeout), at)
        self.passes(outcome(key, status, mark), at + took)

    def passes(self, message: list[Any], at: float, name: str = "observer-1") -> Line:
        """A message that the observer sees next."""
        number = max((line["next"] for line in self.observed[name] if line["event"] == "batch"), default=1)
        return self.see(name, "batch", at, first=number, next=number + 1, time=at, messages=[[number, *message]])

    def end(self) -> None:
        """All get through."""
        for name in list(self.history):
            self.tell(name, "finished", 190.0)
            self.tell(name, "leaving", 191.0)
        for name in list(self.observed):
            self.see(name, "settled", 192.0, whole=True, next=1)

    def rules(self) -> set[str]:
        """Write it all, and say which rules the checker finds broken."""
        self.write()
        return {violation.rule for violation in check(self.folder)}

    def write(self) -> None:
        """Write it all."""
        for folder, diaries in (("history", self.history), ("runs", self.runs), ("observed", self.observed)):
            (self.folder / folder).mkdir(parents=True)
            for name, lines in diaries.items():
                _write(self.folder / folder / f"{name}.jsonl", lines)
        _write(self.folder / "nemesis.jsonl", self.nemesis)
        (self.folder / "campaign.json").write_text(json.dumps(self.settings), encoding="utf-8")
        (self.folder / "after.json").write_text(json.dumps(self.left), encoding="utf-8")


def delegation(key: str, deadline: float) -> list[Any]:
    """A delegation as an observer writes it down, without its number."""
    return [int(Kind.DELEGATION), key, 0, f"digest of {key}", deadline]


def outcome(key: str, status: str, mark: str = "m1") -> list[Any]:
    """An outcome as an observer writes it down, without its number."""
    return [int(Kind.RESPONSE), key, int(Status[status]), f"digest of {key} {status} {mark}", mark]


def _add(lines: list[Line], event: str, at: float, fields: dict[str, object]) -> Line:
    line: Line = {"event": event, "at": at, **fields}
    lines.append(line)
    return line


def _write(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
