"""The middle floor of Ether: who acts.

General layout, from the bottom up:

    deadlines, ledger, registry, records       what the supervisor keeps
    rulings, membership, administration        how it rules on work, on who is there, and on questions about itself
    selection, reassignment, delivery          who gets work, what becomes of it when they go, and what leaves
    history, recovery, homecoming, collecting  how it goes on after it was ended
    supervisor, supervisor_actor               one step of it, and the pykka actor round it
    inbox, pool, loop                          where agents' messages wait, and where they are handled
    capability, task, budget, handle           what a handler declares, what it gets, and what a delegator holds
    agent, composable, cell                    agents, and their place on a node
    child_spec, restart_events, restarts, …    OTP's supervision trees as a state machine; guardian runs one
    observer, observers/                       who sees everything

Nothing here opens a socket or knows of processes; users import from `ether`.
"""
