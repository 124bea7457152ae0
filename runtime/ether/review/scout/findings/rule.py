"""Rules: what is looked for, why it matters, and what mends it; `rules.toml` beside this module has them all."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from ether.review.scout.findings.finding import Confidence, Finding, Severity

__all__ = ["RULES", "RULES_OF_RUFF", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """The description of one kind of finding."""

    name: str
    group: str
    """The pass that tells it: structure, bugs or documentation."""
    severity: Severity
    why: str
    """Why a maintainer should care: one sentence, true of every finding of the rule."""
    fix: str
    confidence: Confidence = Confidence.HIGH
    ruff: tuple[str, ...] = ()
    """The rules of ruff that find it; empty where the check is Scout's own."""
    codes: tuple[str, ...] = ()
    """What other tools call it: their comments silence it too."""
    in_tests: bool = False
    """Whether tests are judged by it too. Most are not: a test does on purpose what a program must not."""

    def on(  # noqa: D417 - the others are the fields of `Finding`
        self, path: str, line: int, what: str, *, column: int = 1, symbol: str = "", severity: Severity | None = None,
    ) -> Finding:  # fmt: skip
        """A finding of this rule at a line of a file.

        Args:
            what: what was seen, without a full stop; the rule's reason follows it.
            severity: the rule's own unless given.
        """
        return Finding(
            rule=self.name, severity=severity or self.severity, confidence=self.confidence, path=path, line=line,
            column=column, message=f"{what}: {self.why}", fix=self.fix, symbol=symbol,
        )  # fmt: skip


def _load() -> dict[str, Rule]:
    data = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
    make = TypeAdapter(Rule).validate_python
    return {
        name: make({"name": name, "group": group, **entry})
        for group, entries in data.items()
        for name, entry in entries.items()
    }


RULES: Final[dict[str, Rule]] = _load()
"""{name: rule} of every pass."""
RULES_OF_RUFF: Final[dict[str, Rule]] = {code: rule for rule in RULES.values() for code in rule.ruff}
"""{rule of ruff: ours}."""
