"""Values as msgpack: containers that do not change, and readers with limits for what strangers send.

May import: `errors`.
Used by: `envelope`, `envelope.manifest`, `envelope.views`, `transport`, `transport.sessions`, `wire`, the layers above.
"""
