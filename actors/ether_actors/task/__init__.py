"""One delegation at its two ends: the task of a handler with its budget and leases, and the handle of a delegator.

May import: `delegator`, the layer below.
Used by: `agent`, `agent.declarations`, `execution`, the layer above.
"""
