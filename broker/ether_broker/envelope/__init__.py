"""The envelopes: delegation, response, manifest and artifact, with their names, ids, versions and payloads.

<<<<<<< HEAD
May import: `artifacts`, `asyncio_checks`, `encoding`, `errors`, `name_hint`.
=======
May import: `artifacts`, `encoding`, `errors`, `name_hint`, `number`.
>>>>>>> 5c1d8734 (artifacts: max_bytes bounds a file of this machine too; it and patience are checked)
Used by: `discovery`, `envelope.views`, `journal`, `journal.memory`, `journal.sqlite`, `mailbox`, `transport`,
`transport.sessions`, `transport.zeromq`, `wire`, the layers above.
"""
