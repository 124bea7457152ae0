"""Text in and out: what a terminal is shown, and files that a user names.

May import: the layers below.
Used by: `cli`, `cli.bus`, `cli.common`, `cli.journal`, `cli.top`, `cluster`, `cluster.file`, `lab.bench`, `process`,
`review`.
"""
