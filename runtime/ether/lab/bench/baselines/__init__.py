"""The same work on NATS, zmq.proxy and raw sockets.

`lab.bench` finds them by name.

May import: `lab.harness`, the layers below.
Used by: `lab.bench`.
"""
