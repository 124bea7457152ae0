"""The delegations that a node has made: their handles until their outcomes are there, and the attempts of a retry policy.

May import: `node.connection`, the layers below.
Used by: `node`, `testing`.
"""
