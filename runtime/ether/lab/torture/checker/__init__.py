"""The rules that must hold after a campaign. Each reads the history and names what breaks it.

May import: `lab.torture.history`, `lab.torture.fault_plan`, `lab.report`, the ground floor.
Used by: `lab.torture`.
"""
