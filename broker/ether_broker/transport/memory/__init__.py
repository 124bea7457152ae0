"""The transport in memory: frames as on a socket, that move when they are told to. No sockets, no threads.

May import: `clock`, `errors`, `timing`, `transport`, `transport.sessions`, `wire`.
Used by: the layers above.
"""
