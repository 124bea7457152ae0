"""A hand-made campaign: logs as its processes would have written them, good until a test spoils them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from ether.lab.report import Violation
from ether.lab.torture.checker.checker import judge
from ether.lab.torture.history.history import read_evidence
from ether.lab.torture.history.message import Rolling, mark_of, passed
from ether.lab.torture.settings import Durability, TortureSettings
from ether_broker.envelope.ids import foreign_id, to_text
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.envelope.status import Status
from ether_broker.journal.sqlite.journal import SqliteJournal
from ether_broker.wire.codec import pack_response
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["Story", "check", "delegation", "outcome", "response"]

Line = dict[str, Any]


class Story:
    """The logs, as lists of lines that a test may change before they are written.

    Args:
        folder: an empty one, or none yet.
        durability: with `journal`, what passed is in one too.
    """

    def __init__(self, folder: Path, durability: Durability = "memory") -> None:
        self.folder = folder
        self.settings = TortureSettings(delegations=1, seed=7, durability=durability).plain()
        self.history: dict[str, list[Line]] = defaultdict(list)
        self.runs: dict[str, list[Line]] = defaultdict(list)
        self.observed: dict[str, list[Line]] = defaultdict(list)
        self.nemesis: list[Line] = []
        self.journal: list[tuple[float, bytes]] | None = [] if durability == "journal" else None
        self.left: dict[str, list[str]] = {"processes": [], "sockets": [], "files": []}
        self.tell("delegator-1", "life", 100.0)
        self.see("observer-1", "life", 99.0)

    def tell(self, name: str, event: str, at: float, /, **fields: object) -> Line:
        """A line of a delegator; `id` may be any word."""
        return _add(self.history[name], event, at, fields)

    def run(self, node: str, event: str, at: float, /, **fields: object) -> Line:
        """A line of a node."""
        return _add(self.runs[node], event, at, fields)

    def see(self, name: str, event: str, at: float, /, **fields: object) -> Line:
        """A line of an observer."""
        return _add(self.observed[name], event, at, fields)

    def strike(self, name: str, action: str, begin: float, pid: int) -> Line:
        """A line of the nemesis."""
        known = {"number": 1, "victim": name.partition("-")[0], "seconds": 0.0}
        return self.happen("strike", begin, **known, name=name, action=action, pid=pid, begin=begin)

    def happen(self, event: str, at: float, /, **fields: object) -> Line:
        """Another line of the nemesis."""
        return _add(self.nemesis, event, at, fields)

    def ask(self, key: str, at: float, *, word: str = "once", timeout: float = 10.0) -> None:
        """A delegation is asked for."""
        name = f"torture.quick.{word}"
        self.tell("delegator-1", "invoke", at, id=key, index=0, capability=name, timeout=timeout, by="delegator-1")

    def answer(
        self, key: str, at: float, status: str = "COMPLETED", code: str = "", attempt: int = 1, **more: object
    ) -> None:
        """Its delegator is told an outcome."""
        mark = mark_of(response(key, status, code))
        self.tell("delegator-1", "ok", at, id=key, status=status, code=code, attempt=attempt, **{"mark": mark, **more})

    def done(
        self, key: str = "d1", at: float = 101.0, *, word: str = "once", status: str = "COMPLETED", code: str = "",
        took: float = 0.5, timeout: float = 10.0, attempt: int = 1,
    ) -> None:  # fmt: skip
        """One delegation as it should go: asked, run, ended, and seen by the observer."""
        self.ask(key, at, word=word, timeout=timeout)
        if status == "COMPLETED":
            name = f"torture.quick.{word}"
            self.run("node-1", "start", at + 0.01, id=key, attempt=1, capability=name, node="node-1", pid=11)
            self.run("node-1", "end", at + took - 0.01, id=key, attempt=1, how="returned")
        self.answer(key, at + took, status, code, attempt)
        self.passes(delegation(key, at + timeout), at)
        self.passes(outcome(key, status, code), at + took)

    def passes(self, envelope: bytes, at: float) -> None:
        """A message passes; the journal keeps it, and the observer sees it."""
        number = self.following
        if self.journal is not None:
            self.journal.append((at, envelope))
        messages = [[*passed(number, envelope, at)]]
        self.see("observer-1", "batch", at, first=number, next=number + 1, rolling="", messages=messages)

    @property
    def following(self) -> int:
        """The number that the observer waits for."""
        return max((line["next"] for line in self.observed["observer-1"] if line["event"] == "batch"), default=1)

    def end(self) -> None:
        """All get through."""
        for name in list(self.history):
            self.tell(name, "finished", 190.0)
        for name in list(self.observed):
            self.see(name, "settled", 192.0, whole=True, next=1)

    def rules(self) -> set[str]:
        """Write it all, and say which rules the checker finds broken."""
        self.write()
        return {violation.rule for violation in check(self.folder)}

    def write(self) -> None:
        """Write it all."""
        self._roll()
        for folder, logs in (("history", self.history), ("runs", self.runs), ("observed", self.observed)):
            (self.folder / folder).mkdir(parents=True)
            for name, lines in logs.items():
                _write(self.folder / folder / f"{name}.jsonl", lines)
        _write(self.folder / "nemesis.jsonl", self.nemesis)
        (self.folder / "campaign.json").write_text(json.dumps(self.settings), encoding="utf-8")
        (self.folder / "after.json").write_text(json.dumps(self.left), encoding="utf-8")
        if self.journal is not None:
            journal = SqliteJournal(self.folder / "journal.db")
            for number, (at, envelope) in enumerate(self.journal, 1):
                journal.append(number, at, 1_700_000_000.0 + at, [envelope])
            journal.close()

    def _roll(self) -> None:
        """Fill in the digests of what the observer has seen in each of its lives, where a test has not."""
        rolling = Rolling()
        for line in self.observed["observer-1"]:
            if line["event"] == "life":
                rolling = Rolling()
            elif line["event"] == "batch" and self.journal is not None:
                rolling.add(envelope for _, envelope in self.journal[line["first"] - 1 : line["next"] - 1])
                line["rolling"] = line["rolling"] or rolling.text


def check(folder: Path) -> tuple[Violation, ...]:
    """What the checker finds in the logs of a folder."""
    return judge(read_evidence(folder))


def delegation(key: str, deadline: float) -> bytes:
    """A delegation as it passes."""
    return pack_envelope(Kind.DELEGATION, request_id=foreign_id(key), deadline=deadline, source=b"delegator-1")


def response(key: str, status: str = "COMPLETED", code: str = "") -> Response:
    """An outcome."""
    error = ErrorInfo(code=code, message="said so") if code else None
    return Response(request_id=to_text(foreign_id(key)), status=Status[status], from_agent="hand", error=error)


def outcome(key: str, status: str = "COMPLETED", code: str = "") -> bytes:
    """An outcome as it passes."""
    return pack_response(response(key, status, code), capability=b"torture.quick.once", target=b"delegator-1")


def _add(lines: list[Line], event: str, at: float, fields: dict[str, Any]) -> Line:
    if "id" in fields:
        fields["id"] = to_text(foreign_id(fields["id"]))
    line: Line = {"event": event, "at": at, **fields}
    lines.append(line)
    return line


def _write(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
