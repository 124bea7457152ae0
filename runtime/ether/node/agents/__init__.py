"""The agents of a node: where they are kept, started again, timed and scaled, and what is told of handlers that hang.

May import: `node`, `node.connection`, the layers below.
Used by: `cluster`, `node`, `runtime`.
"""
