"""Text in and out: what a terminal is shown, files that a user names, warnings.

May import: the floors below.
Used by: `cli`, `cluster`, `node`, `process`, `review`.
"""
