"""Restarts: OTP's supervision trees as a state machine, and the runner that does what it decides.

May import: `agent`, `backoff`, `execution`, `number_check`, `threads`, the layer below.
Used by: the layer above.
"""
