"""The delegator's side: the handle of what it delegated, many of them, and what is tried again.

May import: `backoff`, `number_check`, `threads`, the layer below.
Used by: `agent`, `execution`, `task`, the layer above.
"""
