"""The files of a directory, chosen and decoded to text.

May import: none.
Used by: `review`, `review.scout`, `review.scout.passes`, `review.scout.python`.
"""
