"""Text in and out: what a terminal is shown, files that a user names, warnings.

May import: the layers below.
Used by: `cli`, `cli.bus`, `cli.common`, `cli.journal`, `cli.top`, `cluster`, `cluster.file`, `lab.bench`, `process`,
`review`.
"""
