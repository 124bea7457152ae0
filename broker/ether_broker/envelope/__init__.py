"""The envelopes: delegation, response, manifest and artifact, with their names, ids, versions and payloads.

May import: `artifacts`, `asyncio_checks`, `encoding`, `errors`, `name_hint`, `number`, `text`.
Used by: `discovery`, `envelope.manifest`, `envelope.views`, `journal`, `journal.memory`, `journal.sqlite`, `mailbox`,
`transport`, `transport.sessions`, `transport.zeromq`, `wire`, the layers above.
"""
