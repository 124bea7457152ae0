"""Gap scoring: which capabilities are missing or do not suffice, from what became of the delegations of days.

    outcomes.py         what is read of one delegation that has ended
    daily_traffic.py    their counts by capability, day and delegator
    journal_traffic.py  those of a journal
    rules.py            the rules, one a cause, as data; their counts of one window
    significance.py     the binomial test, and the control of false discoveries
    aliases.py          names that are misspelt ones of others
    scan.py             days of traffic to findings
    finding.py          a finding with its evidence, and the sentence that says it
    formula.py          the score of spec 2 §8.2
    simulator/          months with known gaps, to judge the rules by

Data flows one way: outcomes, daily traffic, counts of a window, findings.

May import: the layers below.
Used by: `cli.governance`, `governance.gaps.simulator`.
"""
