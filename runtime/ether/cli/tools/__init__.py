"""Commands of the tools: `ether review`, `ether bench`, `ether soak` and `ether torture`.

May import: `cli.common`, `review`, `lab`.
Used by: `cli.app`.
"""
