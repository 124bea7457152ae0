"""The bus's own capabilities, `ether.*`: what it is asked about itself, leases, events and the states of agents.

May import: `supervisor.delegations`, `supervisor.journal`, `supervisor.registry`, `supervisor.state`, `task`, the layer
below.
Used by: `supervisor`.
"""
