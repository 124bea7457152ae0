"""Processes under measurement, shared by all of the lab: peer, role, workload, histogram, /proc, what was left behind.

May import: `process`, the layers below.
Used by: `lab.bench`, `lab.bench.baselines`, `lab.bench.cases`, `lab.bench.roles`, `lab.soak`, `lab.torture`.
"""
