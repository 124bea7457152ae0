"""Frames and envelopes as bytes, and their JSON Schemas.

May import: `envelope`, `encoding`.
Used by: `transport`, `journal`, and what reads a header.
"""
