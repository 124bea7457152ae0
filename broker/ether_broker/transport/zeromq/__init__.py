"""The transport over ZeroMQ: the ROUTER socket of a broker, the link of a node, CURVE and ZAP on both sides.

May import: `envelope`, `errors`, `security`, `timing`, `transport`, `transport.sessions`, `wire`.
Used by: the layers above.
"""
