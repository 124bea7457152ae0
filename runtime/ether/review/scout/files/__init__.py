"""The files of a directory, chosen and decoded to text.

May import: nothing of the review.
Used by: `scout` and its rooms.
"""
