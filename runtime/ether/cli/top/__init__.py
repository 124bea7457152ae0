"""`ether top`: sampling, rates, the screen.

May import: `cli.common`, `runtime`, `text_io`, the floors below.
Used by: `cli`.
"""
