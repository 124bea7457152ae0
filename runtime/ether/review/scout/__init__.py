"""Scout: static analysis of whole directories, and the agent that offers it on the bus.

General layout, from the bottom up:

    files/                                        from a directory to decoded text
    python/                                       parsed modules, and what is measured of them
    findings/                                     rules and findings
    checks                                        Scout's own checks, for what ruff lacks
    ruff, selection                               ruff as a program, and which of its findings are worth telling
    passes/                                       structure, bugs, documentation: over a whole directory
    explore, search, summary                      what the actions of the agent do
    agent                                         the actions as capabilities; the only module that knows the bus

Nothing analysed is ever imported or run, and no file of settings of it is read.

May import: `review.scout.files`, `review.scout.findings`, `review.scout.passes`, `review.scout.python`, the layers
below.
Used by: `cli.tools`, `review`, `review.scout.passes`.
"""
