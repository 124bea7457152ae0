"""The journal in memory: the whole interface on a list, for tests, simulations and whoever writes another journal.

May import: `envelope`, `errors`, `journal`, `tap`, `wire`.
Used by: none.
"""
