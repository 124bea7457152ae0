"""A parsed Python module, and what is measured of it.

May import: `review.scout.files`.
Used by: `review.scout`, `review.scout.passes`.
"""
