"""Membership: nodes and agents that come, show life, go and come back. Sans-IO.

May import: `supervisor.delegations`, `supervisor.registry`, `supervisor.state`, the floor below.
Used by: `supervisor`.
"""
