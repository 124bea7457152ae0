"""Artifacts on their way between nodes: chunks of files, given out here and fetched from others.

May import: `node.connection`, the layers below.
Used by: `node`.
"""
