"""A simulator of months of traffic with known gaps: the rules of gap scoring are judged by it.

    binomial.py                random counts
    simulated_capability.py    one capability: who asks for it, how often, and what becomes of it
    troubles.py                gaps, and what only looks like one
    month.py                   a month of many capabilities, by its seed
    judgement.py               what a scan found of the gaps of months

May import: `governance.gaps`.
Used by: `cli.governance`.
"""
