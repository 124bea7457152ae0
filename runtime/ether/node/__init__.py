"""A node: one process's place on the bus, with its agents, its delegations, its observers, or an embedded broker.

May import: `text_io`, the floors below.
Used by: `runtime`, `cluster`, `testing`.
"""
