"""From a directory to decoded text.

May import: nothing of the review.
Used by: `scout` and its rooms.
"""
