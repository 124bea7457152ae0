"""Processes under measurement, shared by all of the lab: peer, role, workload, histogram, /proc, what was left behind.

May import: only the floors below.
Used by: `lab.bench`, `lab.soak`, `lab.torture`.
"""
