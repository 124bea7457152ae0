"""`ether top`: sampling, rates, the screen.

May import: `cli.common`, `runtime`, `text_io`, the layers below.
Used by: `cli`.
"""
