"""The mailbox of each agent at the broker: what waits there, in which order, and its bounds.

May import: `envelope`, `errors`, `name_hint`.
Used by: the layers above.
"""
