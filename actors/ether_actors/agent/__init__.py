"""Agents: the classes that users subclass, their capabilities and inboxes.

May import: `task`, `threads`, the floor below.
Used by: `execution`, `restarts`, the floor above.
"""
