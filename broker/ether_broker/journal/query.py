"""What a reader looks for, as SQL over the index and as a test of what the index does not have yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

__all__ = ["Query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Conditions that all have to hold; None is no condition. `JournalReader.entries` has what each means."""

    since: int | None = None
    until: int | None = None
    agent: str | None = None
    capability: str | None = None
    status: Collection[int] | None = None
    kind: Collection[int] | None = None
    after: float | None = None
    before: float | None = None
    request_id: bytes | None = None
    parent: bytes | None = None

    def where(self) -> tuple[str, list[Any]]:
        """The conditions over `entries`, and their values."""
        terms: list[tuple[str, tuple[Any, ...]]] = [
            (term, (value,))
            for term, value in (
                ("number >= ?", self.since),
                ("number < ?", self.until),
                ("wall >= ?", self.after),
                ("wall < ?", self.before),
                ("request_id = ?", self.request_id),
                ("parent = ?", self.parent),
            )
            if value is not None
        ]
        if self.agent is not None:
            terms.append(("(source = ? OR target = ?)", (self.agent, self.agent)))
        if self.capability is not None:
            prefix = self.capability.endswith(".")
            terms.append(("substr(capability, 1, ?) = ?" if prefix else "capability = ?",
                          (len(self.capability), self.capability) if prefix else (self.capability,)))  # fmt: skip
        for column, wanted in (("status", self.status), ("kind", self.kind)):
            if wanted is not None:
                terms.append((f"{column} IN ({','.join('?' * len(wanted))})", tuple(map(int, wanted))))
        return " AND ".join(term for term, _ in terms) or "1", [value for _, values in terms for value in values]

    def fits(self, entry: tuple[Any, ...]) -> bool:
        """Whether a row of the index, made by `index.describe`, is looked for."""
        number, _, wall, kind, status, request_id, parent, source, target, capability = entry
        return (
            (self.since is None or number >= self.since)
            and (self.until is None or number < self.until)
            and (self.after is None or wall >= self.after)
            and (self.before is None or wall < self.before)
            and (self.request_id is None or request_id == self.request_id)
            and (self.parent is None or parent == self.parent)
            and (self.agent is None or self.agent in {source, target})
            and (self.capability is None or self._covers(capability))
            and (self.status is None or status in self.status)
            and (self.kind is None or kind in self.kind)
        )

    def _covers(self, capability: str) -> bool:
        assert self.capability is not None
        return (
            capability.startswith(self.capability) if self.capability.endswith(".") else capability == self.capability
        )
