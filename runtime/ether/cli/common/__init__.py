"""The common parts of commands: options, output, exit codes, completion, the connection to a bus.

May import: `cluster`, the face.
Used by: every other room of `cli`.
"""
