"""Every rule of every pass, by name."""

from __future__ import annotations

from typing import Final

from ether.review.scout.findings.rule import Rule
from ether.review.scout.passes import bugs, documentation, structure

__all__ = ["RULES"]

RULES: Final[dict[str, Rule]] = {**bugs.RULES, **documentation.RULES, **structure.RULES}
"""{name: rule}."""
