"""What must hold after a campaign. Each rule reads the history and names what breaks it.

May import: `lab.torture.history`, `lab.torture.fault_plan`, `lab.report`, the ground floor.
Used by: `lab.torture`.
"""
