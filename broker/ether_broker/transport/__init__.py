"""Transport: the channels, links and endpoints between a broker and its nodes, and the interface of a server. Sans-IO.

May import: `encoding`, `envelope`, `errors`, `security`, `text`, `timing`, `transport.sessions`, `wire`.
Used by: `discovery`, `transport.in_process`, `transport.memory`, `transport.sessions`, `transport.zeromq`, the layers above.
"""
