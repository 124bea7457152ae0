"""Transport: the session table, channels and endpoints, and how much each peer may send and hold. Sans-IO.

May import: `encoding`, `envelope`, `errors`, `observer_cursor`, `security`, `sorted_keys`, `text`, `timing`, `wire`.
Used by: `discovery`, `transport.in_process`, `transport.memory`, `transport.zeromq`, the layers above.
"""
