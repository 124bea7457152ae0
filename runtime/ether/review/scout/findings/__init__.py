"""Findings, rules, and bounded tables of them.

May import: none.
Used by: `review`, `review.scout`, `review.scout.passes`.
"""
