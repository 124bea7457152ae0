"""The cases, each by itself.

May import: `lab.bench.measurement`, `lab.harness`.
Used by: `lab.bench`.
"""
