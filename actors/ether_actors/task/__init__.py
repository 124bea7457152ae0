"""One delegation at its two ends: the task of a handler with its budget and leases, and the handle of a delegator.

May import: `backoff`, `threads`, the layer below.
Used by: `agent`, `execution`, the layer above.
"""
