"""Case, rounds, result and settings of a benchmark.

May import: `lab.harness`.
Used by: `lab.bench` and its rooms.
"""
