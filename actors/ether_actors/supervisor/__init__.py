"""The supervisor: one step rules on what arrived and leaves the answers in the outboxes; and the pykka actor round it.

    supervisor ──► delegation_policy    how it rules on delegations, responses, cancellations and deadlines
               ──► recovery             how it takes up what the broker before it left in the journal
               ──► capabilities/        the bus's own capabilities, `ether.*`
               ──► membership/          who is on the bus: nodes and agents that come, go and come back
               ──► delegations/         who gets work, what leaves, and what becomes of it when they go
               ──► journal/             what the supervisor makes of a journal: its fold, checkpoints, collection
               ──► state/               what it keeps: delegations, leases, deadlines, endings
               ──► registry/            which agents there are, and which of them gets a delegation

May import: `supervisor.capabilities`, `supervisor.delegations`, `supervisor.journal`, `supervisor.membership`,
`supervisor.registry`, `supervisor.state`, the floor below.
Used by: the floor above.
"""
