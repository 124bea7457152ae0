"""Displays: how a running review is shown, on the error stream."""
