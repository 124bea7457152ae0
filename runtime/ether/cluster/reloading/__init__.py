"""The reload of a running cluster: what is asked for, what has changed, and the steps that make it so.

May import: `cluster`, `errors`, `process`, the layers below.
Used by: `cli.bus`, `cluster`.
"""
