"""A node: one process's place on the bus, with its agents, its delegations, its observers, or an embedded broker.

May import: `node.agents`, `node.artifacts`, `node.connection`, `node.delegations`, `version`, the layers below.
Used by: `ether`, `cluster`, `lab.bench.roles`, `node.agents`, `runtime`, `testing`.
"""
