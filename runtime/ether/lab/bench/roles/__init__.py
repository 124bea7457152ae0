"""The roles: what each process of a benchmark, or of a soak, does.

`lab.harness.peer_main` finds them by name.

May import: `cluster`, `lab.harness`, `node`, `runtime`, the layers below.
Used by: none.
"""
