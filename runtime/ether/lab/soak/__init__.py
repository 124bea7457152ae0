"""`ether soak`: whether a bus that works for long stays as large and as fast as it was.

run ── processes ──► Cluster (broker with a journal, two nodes) and, each a process of its own, a delegator and two observers
 │       └── /proc, each second ──► Series of memory and descriptors
 ├── the delegator, each window ──► Histogram of latencies
 ├── a stalled observer and a stopped node, in the middle third
 └──► Report: slopes, percentiles, and whether each is within its bound

May import: `lab.harness`, `cluster`.
Used by: `cli.tools`.
"""
