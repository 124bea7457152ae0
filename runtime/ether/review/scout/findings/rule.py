"""A rule: what is looked for, why it matters, and what mends it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from ether.review.scout.findings.finding import Confidence, Finding, Severity
from ether.review.scout.python.module import PythonModule

__all__ = ["Rule", "is_suppressed"]

_NOQA: Final = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Za-z0-9_\-, ]+)?", re.IGNORECASE)
_PYLINT: Final = re.compile(r"#\s*pylint:\s*disable=(?P<codes>[\w\-, ]+)")
_FILE_WIDE: Final = re.compile(r"#\s*(?:flake8|ruff):\s*noqa\s*(?::\s*(?P<codes>[A-Z0-9, ]+))?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding."""

    name: str
    severity: Severity
    why: str
    """Why a maintainer should care: one sentence, true of every finding of the rule."""
    fix: str
    confidence: Confidence = Confidence.HIGH
    codes: tuple[str, ...] = ()
    """The same rule in flake8, ruff, bandit or pylint: their `noqa` comments silence ours too."""
    in_tests: bool = False
    """Whether tests are judged by it too. Most are not: a test does on purpose what a program must not."""

    def at(
        self,
        module: PythonModule,
        node: ast.AST,
        what: str,
        *,
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        fix: str | None = None,
    ) -> Finding:
        """A finding of this rule at a node.

        `what` says what was seen, without a full stop; the rule's reason follows it. Severity, confidence and
        fix are the rule's own unless given.
        """
        return self.on(
            module.name,
            getattr(node, "lineno", 1),
            what,
            column=module.column(node),
            symbol=module.symbol(node),
            severity=severity,
            confidence=confidence,
            fix=fix,
        )

    def on(
        self,
        path: str,
        line: int,
        what: str,
        *,
        column: int = 1,
        symbol: str = "",
        severity: Severity | None = None,
        confidence: Confidence | None = None,
        fix: str | None = None,
    ) -> Finding:
        """A finding of this rule at a line of any file; see `at`."""
        return Finding(
            rule=self.name,
            severity=severity or self.severity,
            confidence=confidence or self.confidence,
            path=path,
            line=line,
            column=column,
            message=f"{what}: {self.why}" if what else self.why,
            fix=fix or self.fix,
            symbol=symbol,
        )


def is_suppressed(finding: Finding, codes: tuple[str, ...], module: PythonModule) -> bool:
    """Whether the maintainer has already decided: `noqa`, `pylint: disable` or `nosec` beside it.

    The comment stands on the finding's own line, or on the first or last one of its statement.

    Args:
        finding: the finding.
        codes: what other linters call its rule.
        module: where it stands.
    """
    names = {finding.rule.lower(), *(code.lower() for code in codes)}
    lines = {finding.line, *module.spans.get(finding.line, ())}
    beside = (module.comments.get(line, "") for line in sorted(lines))
    if any(_silences(comment, names) for comment in beside if comment):
        return True
    return any(_matches(_FILE_WIDE.search(comment), names) for comment in module.directives)


def _silences(comment: str, names: set[str]) -> bool:
    if "nosec" in comment and any(name.startswith(("s", "b")) and name[1:].isdigit() for name in names):
        return True
    return _matches(_NOQA.search(comment), names) or _matches(_PYLINT.search(comment), names)


def _matches(match: re.Match[str] | None, names: set[str]) -> bool:
    """Whether a comment speaks of the rule; without codes it speaks of all."""
    if match is None:
        return False
    codes = match["codes"]
    if codes is None:
        return True
    listed = {code.strip().lower() for code in re.split(r"[,\s:]+", codes) if code.strip()}
    return not names.isdisjoint(listed)
