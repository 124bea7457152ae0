"""The journal: every envelope that passed, numbered and hash-chained, so that a broker that dies loses nothing.

May import: `envelope`, `errors`, `tap`, `wire`.
Used by: `journal.memory`, `journal.sqlite`, the layers above.
"""
