"""Commands that read a journal: `ether log` and `ether trace`.

May import: `cli.common`, `audit`.
Used by: `cli.app`.
"""
