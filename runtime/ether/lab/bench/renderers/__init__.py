"""A report for people, for programs and for docs/performance.md.

May import: `lab.bench.measurement`.
Used by: `cli.tools`.
"""
