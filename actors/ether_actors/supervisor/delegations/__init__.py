"""Recipients, delivery, rejection and reassignment of delegations, their responses, progress and deadlines. Sans-IO.

May import: `supervisor.registry`, `supervisor.state`, the layer below.
Used by: `supervisor`, `supervisor.capabilities`, `supervisor.journal`, `supervisor.membership`.
"""
