"""Every rule of every pass, by name."""

from __future__ import annotations

from typing import Final

from ether.scout.passes import bugs, documentation, structure
from ether.scout.rule import Rule

__all__ = ["RULES"]

RULES: Final[dict[str, Rule]] = {**bugs.RULES, **documentation.RULES, **structure.RULES}
"""{name: rule}."""
