"""Findings, rules, and bounded tables of them.

May import: `scout.python`.
Used by: `scout` and its rooms.
"""
