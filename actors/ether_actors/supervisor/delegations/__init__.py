"""Selection, delivery, rejection, progress and reassignment of delegations. Sans-IO.

May import: `supervisor.state`, `supervisor.registry`, `task`.
Used by: `supervisor` and its rooms `membership`, `capabilities`, `journal`.
"""
