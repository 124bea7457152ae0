"""The transport in memory: frames as on a socket, that move when they are told to. No sockets, no threads.

May import: `transport`, `wire`, `clock`, `timing`.
Used by: `ether.testing`, and our tests.
"""
