"""All checks, and how they are run over one module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ether.review.scout.checks.flow import branches, closures, comparisons, coroutines, exceptions, resources
from ether.review.scout.checks.names import definitions, imports, names
from ether.review.scout.checks.names import duplicate_keys as displays
from ether.review.scout.checks.names import shared_mutables as mutables
from ether.review.scout.checks.text import formatting, leftovers, security, strings
from ether.review.scout.findings.finding import Finding
from ether.review.scout.findings.rule import Rule, is_suppressed
from ether.review.scout.python.module import PythonModule

__all__ = ["BUG_RULES", "check_module"]

_FAMILIES: Final = (
    branches,
    closures,
    comparisons,
    coroutines,
    definitions,
    displays,
    exceptions,
    formatting,
    imports,
    leftovers,
    mutables,
    names,
    resources,
    security,
    strings,
)
_CHECKS: Final[tuple[Callable[[PythonModule], Iterator[Finding]], ...]] = tuple(family.check for family in _FAMILIES)

BUG_RULES: Final[dict[str, Rule]] = {rule.name: rule for family in _FAMILIES for rule in family.RULES}
"""{name: rule} of everything that the checks can tell."""


def check_module(module: PythonModule) -> tuple[list[Finding], list[str]]:
    """Run every check over a module.

    Returns:
        The findings that no comment silences, in the order of the text, and a note for each check that could
        not finish because an expression is nested too deeply for it. One check's trouble costs no other its
        findings.
    """
    findings: set[Finding] = set()
    notes: list[str] = []
    for family, check in zip(_FAMILIES, _CHECKS, strict=True):
        try:
            findings.update(check(module))
        except RecursionError:
            family_name = family.__name__.rpartition(".")[2]
            notes.append(f"{module.name}: nested too deeply for the check of {family_name}.")
    rules = ((found, BUG_RULES[found.rule]) for found in findings)
    judged = [(found, rule) for found, rule in rules if rule.in_tests or not module.source.is_test]
    kept = [found for found, rule in judged if not is_suppressed(found, rule.codes, module)]
    return sorted(kept, key=lambda found: (found.line, found.column, found.rule)), notes
