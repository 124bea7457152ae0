"""A node: one process's place on the bus, with its agents, its delegations, its observers, or an embedded broker.

May import: `node.connection`, `text_io`, `version`, the floors below.
Used by: `ether`, `cluster`, `lab.bench.roles`, `runtime`, `testing`.
"""
