"""Scout's own checks, for what ruff has no rule: each a function from a module to places and what is wrong there.

May import: `review.scout.findings`, `review.scout.python`.
Used by: `review.scout.passes`.
"""
