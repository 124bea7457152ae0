"""The journal: every envelope that passed, numbered and hash-chained, so that a broker that dies loses nothing.

May import: `wire`, `tap`.
Used by: the supervisor, `ether.node`, `ether.audit`.
"""
