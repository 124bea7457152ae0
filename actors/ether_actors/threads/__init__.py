"""Threads and the event loop of a node: where calls run. Nothing here knows agents.

May import: only the floor below.
Used by: `agent`, `execution`, `observers`.
"""
