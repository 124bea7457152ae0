"""Governance: what the record of a bus says about its agents, and about those that are missing.

    gaps/    capabilities that are missing or do not suffice, found in the traffic of days

May import: none.
Used by: none.
"""
