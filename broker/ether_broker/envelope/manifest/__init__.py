"""Manifests: what an agent registers of itself, its capabilities and subscriptions.

May import: `encoding`, `envelope`, `errors`.
Used by: `envelope.views`, `wire`, the layers above.
"""
