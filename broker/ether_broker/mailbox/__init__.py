"""The mailbox of each agent at the broker: what waits there, in which order, and its bounds.

May import: `envelope`, `errors`.
Used by: the layers above.
"""
