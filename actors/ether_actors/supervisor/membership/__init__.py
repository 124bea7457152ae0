"""Membership: nodes and agents that come, show life, go and come back. Sans-IO.

May import: `supervisor.delegations`, `supervisor.state`, `supervisor.registry`.
Used by: `supervisor`.
"""
