"""The rules that must hold after a campaign. Each reads the history and names what breaks it.

May import: `lab`, `lab.torture`, `lab.torture.history`, the layers below.
Used by: `lab.torture`.
"""
