"""Random counts of a binomial distribution; `random` has them from Python 3.12 on."""

from __future__ import annotations

import math
from random import Random
from typing import Final

__all__ = ["binomial", "poisson"]

_HALF: Final = 0.5
_MANY: Final = 12.0
"""Expected successes above which the normal distribution is near enough."""


def binomial(random: Random, trials: int, chance: float) -> int:
    """How many of so many trials succeed, each by `chance`."""
    if trials <= 0 or chance <= 0:
        return 0
    if chance > _HALF:
        return trials - binomial(random, trials, max(0.0, 1 - chance))
    if trials * chance > _MANY:
        drawn = random.gauss(trials * chance, math.sqrt(trials * chance * (1 - chance)))
        return min(trials, max(0, round(drawn)))
    successes, at, scale = 0, 0, math.log1p(-chance)
    while True:  # from one success to the next
        at += math.floor(math.log(1 - random.random()) / scale) + 1
        if at > trials:
            return successes
        successes += 1


def poisson(random: Random, mean: float) -> int:
    """How many occur of what occurs `mean` times on average, independently."""
    if mean > _MANY:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    count, left = 0, math.exp(-mean)
    product = random.random()
    while product > left:
        count += 1
        product *= random.random()
    return count
