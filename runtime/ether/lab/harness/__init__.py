"""Processes under measurement, shared by `bench` and `soak`: peer, role, workload, histogram, /proc.

May import: only the floors below.
Used by: `lab.bench`, `lab.soak`.
"""
