"""`ether top`: sampling, rates, the screen.

May import: `cli.common`, the face.
Used by: `cli.app`.
"""
