"""The common parts of commands: options, output, exit codes, completion, the connection to a bus.

May import: `cluster`, `runtime`, `text_io`, the layers below.
Used by: `cli`, `cli.bus`, `cli.governance`, `cli.journal`, `cli.setup`, `cli.tools`, `cli.top`.
"""
