"""Membership: nodes and agents that come, show life, go and come back. Sans-IO.

May import: `supervisor.delegations`, `supervisor.registry`, `supervisor.state`, the layer below.
Used by: `supervisor`.
"""
