"""A child process and its parent: the process supervisor, the parent link, output, signals and memory limits.

May import: `errors`, `text_io`, the layers below.
Used by: `cli.tools`, `cluster`, `cluster.reloading`, `lab.harness`, `lab.torture`.
"""
