"""The journal in memory: the whole interface on a list, for tests, simulations and whoever writes another journal.

May import: `journal`'s interface, `wire`, `tap`.
Used by: tests of users, and ours.
"""
