"""The same work on NATS, zmq.proxy and raw sockets.

May import: `lab.harness`.
Used by: `lab.bench`, by name.
"""
