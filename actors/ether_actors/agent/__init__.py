"""Agents: the classes that users subclass, their capabilities and inboxes.

May import: `agent.declarations`, `delegator`, `number_check`, `task`, `threads`, the layer below.
Used by: `execution`, `restarts`, the layer above.
"""
