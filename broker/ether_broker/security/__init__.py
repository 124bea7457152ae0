"""Keys, identities and access lists: who may be on the bus, and what each may do there. No socket.

May import: `errors`, `name_hint`.
Used by: `transport`, `transport.sessions`, `transport.zeromq`, the layers above.
"""
