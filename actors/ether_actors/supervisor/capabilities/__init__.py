"""The bus's own capabilities, `ether.*`: questions about itself and leases.

May import: `supervisor.journal`, `supervisor.delegations`, `supervisor.state`, `supervisor.registry`.
Used by: `supervisor`.
"""
