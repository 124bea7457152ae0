"""Agents: the classes that users subclass, their capabilities and inboxes.

May import: `task`, `threads`.
Used by: `execution`, `restarts`; users import its classes from `ether`.
"""
