"""Frames and envelopes as bytes, and their JSON Schemas.

May import: `encoding`, `envelope`, `envelope.manifest`, `envelope.views`, `errors`.
Used by: `journal`, `journal.memory`, `journal.sqlite`, `tap`, `transport`, `transport.in_process`, `transport.memory`,
`transport.sessions`, `transport.zeromq`, the layers above.
"""
