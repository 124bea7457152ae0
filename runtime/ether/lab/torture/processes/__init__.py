"""What a campaign starts and strikes: specialists, delegators, the observer, the nemesis, the disk.

May import: `lab.torture.history`, `lab.torture.plan`, `cluster`, `process`.
Used by: `lab.torture`.
"""
