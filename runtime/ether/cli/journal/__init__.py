"""Commands that read a journal: `ether log` and `ether trace`.

May import: `audit`, `cli.common`, `text_io`, the layers below.
Used by: `cli`, `cli.governance`.
"""
