"""Walks small worlds whole: `python -m tests.simulation.small_world`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

if __name__ == "__main__":  # the three layers, in a plain checkout
    root = Path(__file__).resolve().parents[3]
    sys.path[:0] = [str(root / layer) for layer in ("runtime", "actors", "broker")]

from tests.simulation.small_world.relations import relations
from tests.simulation.small_world.walk import Walk, walk
from tests.simulation.small_world.world import FAULTS, Relation


def main() -> int:
    """Walk, and say what was seen; 1 if a law was broken or something was left out."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.small_world", description=__doc__)
    parser.add_argument("--faults", type=int, default=1, help="how many may meet in one world (1)")
    parser.add_argument("--delegations", type=int, default=3, choices=(2, 3), help="how many there are (3)")
    parser.add_argument("--only", default=",".join(FAULTS), help="the faults to choose from, by comma")
    parser.add_argument("--every", action="store_true", help="every relation of parents, not only one of each kind")
    parser.add_argument("--parents", help="one relation only, such as 0,1,1")
    parser.add_argument("--states", type=int, help="where to stop in each world; default: at its end")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="processes")
    arguments = parser.parse_args()
    found = relations(arguments.delegations, arguments.faults, tuple(arguments.only.split(",")), every=arguments.every)
    if arguments.parents:
        parents = tuple(int(number) for number in arguments.parents.split(","))
        found = [relation for relation in found if relation.parents == parents]
    began = time.monotonic()
    with multiprocessing.Pool(arguments.jobs) as pool:
        walks = []
        for seen in pool.imap(_Bounded(arguments.states), found):
            walks.append(seen)
            print(line(seen), flush=True)
    complete = sum(seen.is_complete for seen in walks)
    broken = sum(bool(seen.violations) for seen in walks)
    print(
        f"{len(walks)} worlds, {complete} of them whole: {sum(seen.states for seen in walks):,} states, "
        f"{sum(seen.steps for seen in walks):,} steps, depth {max(seen.depth for seen in walks)}, "
        f"{sum(seen.resting for seen in walks):,} at rest; {broken} with a broken law; {time.monotonic() - began:.0f} s."
    )
    return 1 if broken or complete < len(walks) else 0


class _Bounded:
    def __init__(self, most_states: int | None) -> None:
        self._most_states = most_states

    def __call__(self, relation: Relation) -> Walk:
        return walk(relation, most_states=self._most_states)


def line(seen: Walk) -> str:
    """What a walk saw, for people."""
    relation = seen.relation
    parents = ",".join(map(str, relation.parents))
    text = (
        f"parents {parents} faults {'+'.join(relation.faults) or 'none'}: {seen.states:,} states, {seen.steps:,} steps, "
        f"depth {seen.depth}, {'whole' if seen.is_complete else 'not whole'}, {seen.seconds:.0f} s"
    )
    kinds = dict.fromkeys(why.split(":")[0] for why, _ in seen.violations)
    shortest = [next(item for item in seen.violations if item[0].startswith(kind)) for kind in kinds]
    return "\n".join([text, *(f"  BROKEN {why}\n    {path}" for why, path in shortest)])


if __name__ == "__main__":
    sys.exit(main())
