"""The declarations of an agent's class: its state, and the methods that are capabilities, handle events, or run on a schedule.

May import: `task`, the layer below.
Used by: `agent`, `execution`, the layer above.
"""
