"""A child process and its parent: the process supervisor, the parent link, output, signals and memory limits.

May import: `errors`, `text_io`, the layers below.
Used by: `cli.tools`, `cluster`, `lab.harness`, `lab.torture`.
"""
