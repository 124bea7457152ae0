"""The bus's own capabilities, `ether.*`: questions about itself and leases.

May import: `supervisor.delegations`, `supervisor.journal`, `supervisor.registry`, `supervisor.state`, the layer below.
Used by: `supervisor`.
"""
