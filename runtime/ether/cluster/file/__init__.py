"""The cluster file: YAML with its places, its schema, and what it says as the specification of a cluster.

May import: `cluster`, `text_io`, the layers below.
Used by: `cli.bus`, `cli.setup`, `cluster`.
"""
