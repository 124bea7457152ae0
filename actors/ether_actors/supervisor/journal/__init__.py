"""The supervisor's side of a journal: its fold to a state, checkpoints, and the collection of what is old.

May import: `supervisor.delegations`, `supervisor.state`, the layer below.
Used by: `supervisor`, `supervisor.capabilities`, the layer above.
"""
