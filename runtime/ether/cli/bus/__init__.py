"""Commands that run a bus or ask it for something.

May import: `cli.common`, `cluster`, `cluster.file`, `cluster.reloading`, `dead_letter`, `runtime`, `text_io`, the layers
below.
Used by: `cli`.
"""
