"""The registry: which agents there are, what they can do, and which of them gets a delegation. Sans-IO.

May import: only the floor below.
Used by: every other room of `supervisor`.
"""
