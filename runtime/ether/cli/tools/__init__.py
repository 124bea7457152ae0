"""Commands of the tools: `ether review`, `ether bench`, `ether soak` and `ether torture`.

May import: `cli.common`, `lab`, `lab.bench`, `lab.soak`, `lab.torture`, `process`, `review`, `review.scout`, the layers
below.
Used by: `cli`.
"""
