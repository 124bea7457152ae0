"""`ether soak`: whether a bus that works for long stays as large and as fast as it was.

run ──► Cluster (broker with a journal, two nodes) and a Deployment of a delegator and two observers
 ├── /proc, each second ──► Series of memory and descriptors
 ├── the delegator, each window ──► Histogram of latencies
 ├── a stalled observer and a stopped node, in the middle third
 └──► Report: slopes, percentiles, and whether each is within its bound

May import: `cluster`, `lab`, `lab.harness`.
Used by: `cli.tools`.
"""
