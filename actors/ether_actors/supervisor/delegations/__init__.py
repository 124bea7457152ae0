"""Selection, delivery, rejection, progress and reassignment of delegations. Sans-IO.

May import: `supervisor.registry`, `supervisor.state`, the floor below.
Used by: `supervisor`, `supervisor.capabilities`, `supervisor.journal`, `supervisor.membership`.
"""
