"""The three passes of a review: structure, bugs, documentation; each sees every file once.

May import: `review.scout`, `review.scout.files`, `review.scout.findings`, `review.scout.python`.
Used by: `review.scout`.
"""
