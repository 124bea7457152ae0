"""Execution: cells that run the handlers of agents on a node, their dispatchers, due calls and resources.

May import: `agent`, `agent.declarations`, `delegator`, `observers`, `task`, `threads`, the layer below.
Used by: `restarts`, the layer above.
"""
