"""Agents: the classes that users subclass, their capabilities and inboxes.

May import: `backoff`, `task`, `threads`, the layer below.
Used by: `execution`, `restarts`, the layer above.
"""
