"""The audit trail: what a journal says, as people and programs read it.

    entry.py        one envelope of the journal
    brief.py        a value in few words
    filter.py       which of them are wanted
    identifier.py   how people name a delegation
    span.py         a delegation with its sub-delegations and timings
    trail.py        a journal, asked for its entries and spans

Nothing here needs a bus: a journal is read where it lies, also while a broker writes it.

May import: the layers below.
Used by: `cli.journal`.
"""
