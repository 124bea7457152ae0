"""The journal in a SQLite file: tables, group commit, index, retention, reading and verification.

May import: `journal`, `wire`, `envelope`.
Used by: the supervisor's `journal`, `ether.node`, `ether.audit`.
"""
