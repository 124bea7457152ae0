"""The broker's state: open delegations, endings, leases, deadlines and the states of agents. Sans-IO.

May import: `supervisor.registry`, the layer below.
Used by: `supervisor`, `supervisor.capabilities`, `supervisor.delegations`, `supervisor.journal`,
`supervisor.membership`.
"""
