"""The three passes of a review: structure, bugs, documentation; each sees every file once.

May import: `scout.checks`, `scout.findings`, `scout.python`, `scout.files`.
Used by: `scout`.
"""
