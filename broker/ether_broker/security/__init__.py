"""Keys, identities and access lists: who may be on the bus, and what each may do there. No socket.

May import: no other room.
Used by: `transport.zeromq`, the supervisor, `ether.cli`.
"""
