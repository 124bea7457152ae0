"""Settings, faults and workload of a campaign, made of the seed.

May import: nothing of the lab.
Used by: `lab.torture` and its rooms.
"""
