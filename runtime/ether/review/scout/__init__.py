"""Scout: static analysis of whole directories, and the agent that offers it on the bus.

General layout, from the bottom up:

    files/                                        from a directory to decoded text
    python/                                       parsed modules, and what is measured of them
    findings/, checks/                            what is wrong in one Python module
    passes/                                       structure, bugs, documentation: over a whole directory
    explore, examine, search, summary             one file for each action of the agent
    agent                                         the actions as capabilities; the only module that knows the bus

Nothing analysed is ever imported or run.

May import: its own rooms, the face, the floors below.
Used by: `review`, and by its name any bus.
"""
