"""The sealing of files by their digest, and the fetching of an artifact's bytes from the node that has them.

May import: `errors`, `text`.
Used by: `envelope`, the layers above.
"""
