"""The transport within a process: a broker and its nodes in one process, without sockets.

May import: `errors`, `timing`, `transport`, `transport.sessions`, `wire`.
Used by: the layers above.
"""
