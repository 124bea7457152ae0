"""What the processes of a campaign wrote down, and its reader.

May import: `lab.torture.plan`.
Used by: `lab.torture` and its rooms.
"""
