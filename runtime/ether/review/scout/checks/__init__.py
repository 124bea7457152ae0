"""Scout's own checks, for what ruff has no rule: each a function from a module to places and what is wrong there.

May import: `scout.findings`, `scout.python`.
Used by: `scout.passes`.
"""
