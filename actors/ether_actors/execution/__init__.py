"""Execution: cells that run the handlers of agents on a node, their dispatchers, timers and resources.

May import: `agent`, `task`, `threads`, `observers`.
Used by: `restarts`, `ether.node`, `ether.testing`.
"""
