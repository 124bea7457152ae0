"""The supervisor: one step rules on what arrived and leaves the answers in the outboxes; and the pykka actor round it.

    supervisor ──► delegation_policy    which delegations are accepted, which came before, and which are refused
               ──► recovery             how it takes up what the broker before it left in the journal
               ──► capabilities/        the bus's own capabilities, `ether.*`
               ──► membership/          who is on the bus: nodes and agents that come, go and come back
               ──► delegations/         who gets work, what is made of answers and deadlines, what leaves
               ──► journal/             what the supervisor makes of a journal: its fold, checkpoints, collection
               ──► state/               what it keeps: delegations, leases, deadlines, endings
               ──► registry/            which agents there are, and which of them gets a delegation

May import: `supervisor.capabilities`, `supervisor.delegations`, `supervisor.journal`, `supervisor.membership`,
`supervisor.registry`, `supervisor.state`, the layer below.
Used by: the layer above.
"""
