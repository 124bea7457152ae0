"""What must hold after a campaign. Each rule reads the history and names what breaks it.

May import: `lab.torture.history`, `lab.torture.plan`.
Used by: `lab.torture`.
"""
