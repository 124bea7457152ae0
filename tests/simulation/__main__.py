"""Seeds from the command line: `python -m tests.simulation --seeds 2000`."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

if __name__ == "__main__":  # the three layers, in a plain checkout
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / layer) for layer in ("runtime", "actors", "broker")]

from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.hunt import MOST, hunt
from tests.simulation.world import Report, simulate


def main() -> int:
    """Live through seeds, print those that fail, and say how fast it was; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--start", type=int, default=0, help="the first (0)")
    parser.add_argument("--seed", type=int, help="one seed only, with everything that happens in it")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="processes")
    parser.add_argument("--digests", action="store_true", help="print every seed and the digest of what happened in it")
    parser.add_argument("--minutes", type=float, help="go on with further seeds for so long")
    parser.add_argument("--mutants", action="store_true", help="hunt every planted bug, from the first seed on")
    arguments = parser.parse_args()
    if arguments.mutants:
        return _hunt(arguments.jobs)
    if arguments.seed is not None:
        report = simulate(arguments.seed, is_loud=True)
        print(_line(report))
        return 1 if report.violation else 0
    seeds: Iterable[int] = itertools.count(arguments.start)
    if arguments.minutes is None:
        seeds = range(arguments.start, arguments.start + arguments.seeds)
    return _campaign(seeds, arguments.jobs, arguments.minutes, is_telling=arguments.digests)


def _hunt(jobs: int) -> int:
    with multiprocessing.Pool(jobs) as pool:
        found = []
        for number, seed in enumerate(pool.imap(_hunted, range(len(MUTANTS)))):
            mutant = MUTANTS[number]
            if not mutant.proof:
                found.append(seed)
            told = mutant.proof or ("not found" if seed is None else f"seed {seed}")
            print(f"{mutant.name}: {told}", flush=True)
    print(f"{len(found)} planted bugs that a seed can show, {found.count(None)} of them not found in {MOST:,} seeds.")
    return 1 if None in found else 0


def _hunted(number: int) -> int | None:
    return None if MUTANTS[number].proof else hunt(MUTANTS[number])


def _campaign(seeds: Iterable[int], jobs: int, minutes: float | None, *, is_telling: bool) -> int:
    began = time.monotonic()
    count = delegations = failed = 0
    virtual = 0.0
    for report in _reports(seeds, jobs):
        count += 1
        delegations += report.delegations
        virtual += report.seconds
        failed += bool(report.violation)
        if report.violation or is_telling:
            print(_line(report), flush=True)
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
    seconds = time.monotonic() - began
    print(
        f"{count:,} seeds, {failed} failed; {delegations:,} delegations in {virtual / 3600:.1f} simulated hours; "
        f"{seconds:.0f} s, {60 * delegations / seconds:,.0f} delegations a minute."
    )
    return 1 if failed else 0


def _reports(seeds: Iterable[int], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(simulate, seeds)
        return
    with multiprocessing.Pool(jobs) as pool:
        numbers = iter(seeds)
        while chunk := list(itertools.islice(numbers, 64 * jobs)):  # imap would draw an endless count at once
            yield from pool.imap_unordered(simulate, chunk, chunksize=4)


def _line(report: Report) -> str:
    outcome = f"FAILED {report.violation}" if report.violation else "held"
    line = f"seed {report.seed} [{report.digest}] {report.delegations} delegations, {report.seconds:.1f} s: {outcome}"
    return f"{line}\n  again: python -m tests.simulation --seed {report.seed}" if report.violation else line


if __name__ == "__main__":
    sys.exit(main())
