"""Commands of governance: `ether gaps`.

May import: `cli.common`, `cli.journal`, `governance.gaps`, `governance.gaps.simulator`, the layers below.
Used by: `cli`.
"""
