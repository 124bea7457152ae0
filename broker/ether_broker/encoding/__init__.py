"""Values as msgpack: containers that do not change, and readers with limits for what strangers send.

May import: no room of Ether, only `errors`.
Used by: `envelope`, `wire`, `transport`, and all that reads a body.
"""
