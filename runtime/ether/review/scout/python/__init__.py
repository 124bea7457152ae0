"""A parsed Python module, and what is measured of it.

May import: `scout.files`.
Used by: `scout` and its rooms.
"""
