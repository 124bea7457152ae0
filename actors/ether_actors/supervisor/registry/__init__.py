"""The registry: which agents there are, what they can do, and which of them gets a delegation. Sans-IO.

May import: the layer below.
Used by: `supervisor`, `supervisor.capabilities`, `supervisor.delegations`, `supervisor.membership`, `supervisor.state`,
the layer above.
"""
