"""A delegation at its specialist: the task of a handler with its budget, permissions and leases.

May import: `delegator`, the layer below.
Used by: `agent`, `agent.declarations`, `execution`, `observers`, `supervisor.capabilities`, the layer above.
"""
