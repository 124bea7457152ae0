"""The lab: what measures and breaks a bus. `bench` compares, `torture` kills, `soak` waits.

May import: the face, `cluster`, `process`, the floors below.
Used by: `cli.tools`.
"""
