"""Bugs that are put into the product one at a time, to see that the simulator finds each.

planted    some that never were, one or more for each invariant
mended     some that were
"""

from __future__ import annotations

from typing import Final

from tests.simulation.mutants.mended import MENDED
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.planted import PLANTED

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: Final = (*PLANTED, *MENDED)
