"""Checks of control flow: branches, closures, comparisons, coroutines, exceptions, resources.

May import: `scout.findings`, `scout.python`, `scout.files`.
Used by: `scout.checks`.
"""
