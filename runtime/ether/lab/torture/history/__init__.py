"""The history of a campaign: what its processes wrote down, and its reader.

May import: `lab.torture.fault_plan`, `lab.torture.settings`, the ground floor.
Used by: `lab.torture` and its rooms.
"""
