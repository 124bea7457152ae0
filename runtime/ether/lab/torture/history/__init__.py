"""The history of a campaign: what its processes wrote down, and its reader.

May import: `lab.torture`, the layers below.
Used by: `lab.torture`, `lab.torture.checker`.
"""
