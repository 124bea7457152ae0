"""Transport: the session table, channels and endpoints, and how much each peer may send and hold. Sans-IO.

May import: `wire`, `envelope`, `encoding`, `tap`, and of `security` only types.
Used by: `transport.zeromq`, `transport.memory`, the supervisor, nodes.
"""
