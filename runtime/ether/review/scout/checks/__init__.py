"""The checks of the bug pass: one file a family, each a function from a module to findings.

A check tells only what is true of the text it sees, and keeps quiet where the author's intent is the likelier
reading. What the maintainer has silenced for flake8, ruff, pylint or bandit is silent here too. `catalogue`
runs them and knows all rules.

May import: its own rooms, `scout.findings`, `scout.python`.
Used by: `scout.passes`, `scout`.
"""
