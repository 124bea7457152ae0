"""Checks of names: definitions, imports, duplicate keys, shared mutables.

May import: `scout.findings`, `scout.python`, `scout.files`.
Used by: `scout.checks`.
"""
