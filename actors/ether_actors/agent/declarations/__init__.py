"""The declarations of an agent's class: the methods that are its capabilities, handle events, or run on a schedule.

May import: `task`, the layer below.
Used by: `agent`, `execution`, the layer above.
"""
