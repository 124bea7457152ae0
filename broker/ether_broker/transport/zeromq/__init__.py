"""The transport over ZeroMQ: the ROUTER socket of a broker, the link of a node, CURVE and ZAP on both sides.

May import: `transport`, `wire`, `security`.
Used by: `ether.node`, `ether.cluster`.
"""
