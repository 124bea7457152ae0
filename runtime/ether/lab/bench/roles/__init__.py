"""The roles: what each process of a benchmark, or of a soak, does.

May import: `lab.harness`, `cluster`, `node`, the face, the floors below.
Used by: `lab.harness.peer_main`, by name.
"""
