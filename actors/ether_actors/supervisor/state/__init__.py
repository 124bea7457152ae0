"""The broker's state: open delegations, endings, leases and deadlines. Sans-IO.

May import: `supervisor.registry`.
Used by: every other room of `supervisor`.
"""
