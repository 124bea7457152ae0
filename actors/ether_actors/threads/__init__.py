"""Threads and the event loop of a node: where calls run. Nothing here knows agents.

May import: none.
Used by: `agent`, `delegator`, `execution`, `observers`, `restarts`, the layer above.
"""
