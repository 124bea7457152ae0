"""Entries of a journal in full, as `ether log show` prints them for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ether.audit.brief import brief
from ether.cli.common.output import seconds
from ether.cli.journal.timestamps import moment_text
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.text import one_line, printable_lines
from ether_broker.wire.frame import Flag

if TYPE_CHECKING:
    from ether.audit.entry import AuditEntry

__all__ = ["cards"]

_INDENT: Final = "    "
_TIMES: Final = frozenset({"elapsed", "timeout", "retry_after"})


def cards(entries: Sequence[AuditEntry]) -> str:
    """The entries below each other: a headline each, and what they say, a field a line."""
    first = entries[0]
    blocks = []
    for entry in entries:
        after = "" if entry is first else f"  {seconds(max(0.0, entry.time - first.time))} after #{first.number}"
        lines = [f"#{entry.number}  {moment_text(entry.wall)}  {_headline(entry)}{after}"]
        fields = list(_fields(entry))
        width = max((len(name) for name, _ in fields), default=0)
        for name, text in fields:
            begin, *rest = text.splitlines() or [""]
            lines.append(f"{_INDENT}{name.ljust(width)}  {begin}".rstrip())
            lines += [f"{_INDENT}{' ' * width}  {line}".rstrip() for line in rest]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _headline(entry: AuditEntry) -> str:
    words = [entry.what]
    if entry.event_name is None:
        words += [f"{entry.from_agent or '-'} → {entry.to_agent or '-'}", entry.about_capability or "-"]
    return "  ".join(map(one_line, words))


def _fields(entry: AuditEntry) -> Iterator[tuple[str, str]]:
    header = entry.header
    if entry.about is not None:
        yield "request", to_text(entry.about)
    if header.parent != NO_ID:
        yield "parent", to_text(header.parent)
    if header.attempt > 1 or header.flags & Flag.REDELIVERED:
        yield "attempt", f"{header.attempt}{', redelivered' if header.flags & Flag.REDELIVERED else ''}"
    for name, value in entry.body.items():
        if value is None or (entry.event_name is not None and name in {"event", "request_id"}):
            continue
        if name == "error" and isinstance(value, dict):
            yield from _error(value)
        else:
            yield name, _text(name, value)


def _error(error: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "error", printable_lines(f"{error.get('code')}: {error.get('message')}")
    if error.get("traceback"):
        yield "traceback", printable_lines(str(error["traceback"]).rstrip())


def _text(name: str, value: Any) -> str:
    if name in _TIMES and isinstance(value, (int, float)):
        return seconds(float(value)) or ""
    if name == "timestamp" and isinstance(value, (int, float)):
        return moment_text(float(value))
    return printable_lines(brief(value)) if value or value == 0 else '""' if value == "" else str(value)
