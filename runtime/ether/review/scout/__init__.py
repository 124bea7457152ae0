"""Scout: static analysis of whole directories, and the agent that offers it on the bus.

General layout, from the bottom up:

    limits, language, finding, words              bounds, names of things
    discovery, source, python_module, syntax      from a directory to parsed modules
    rule, checks/                                 what is wrong in one Python module
    outline, complexity, docstring, markdown …    what there is, measured
    passes/                                       structure, bugs, documentation: over a whole directory
    explore, examine, search, summary             one file for each action of the agent
    agent                                         the actions as capabilities; the only module that knows the
    bus

Nothing analysed is ever imported or run.
"""
