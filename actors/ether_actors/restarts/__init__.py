"""Restarts: OTP's supervision trees as a state machine, and the runner that does what it decides.

May import: `execution`, `agent`.
Used by: `ether.node`, `ether.process`, `ether.cluster`.
"""
