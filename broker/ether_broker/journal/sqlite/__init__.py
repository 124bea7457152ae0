"""The journal in a SQLite file: tables, group commit, index, retention, reading and verification.

May import: `envelope`, `errors`, `journal`, `tap`, `wire`.
Used by: the layers above.
"""
