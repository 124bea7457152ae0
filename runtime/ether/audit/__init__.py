"""The audit trail: what a journal says, as people and programs read it.

    entry.py        one envelope of the journal
    words.py        text that is fit for a terminal
    selection.py    which of them are wanted
    span.py         a delegation with its sub-delegations and timings
    trail.py        a journal, asked for its entries and spans

Nothing here needs a bus: a journal is read where it lies, also while a broker writes it.
"""
