"""Observers: who is shown every message; the log and the probe that come with Ether.

May import: `threads`.
Used by: `execution`, `ether.node`; users import from `ether.observers`.
"""
