"""Checks of text: formatting, leftovers, security, strings.

May import: `scout.findings`, `scout.python`, `scout.files`.
Used by: `scout.checks`.
"""
