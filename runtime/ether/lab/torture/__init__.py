"""`ether torture`: a kill campaign on real processes, and an independent checker of what they wrote down.

    campaign.run ──► Processes    broker, nodes, delegators, observers: restarted when they die
                 ──► Nemesis      kills, pauses and restarts them by a plan that the seed makes
                 ──► left_behind  what is left afterwards: processes, sockets, files
                 ──► judge        reads the folder and nothing else: histories, run logs, the nemesis' own log, the journal

After Jepsen: clients write down what they asked and what they were told, as it happens; no answer is *unknown*, never
*failed*; what must hold is decided afterwards, by code that shares no state with the bus.

May import: `cluster`, `lab`, `lab.harness`, `lab.torture.checker`, `lab.torture.history`, `process`, `runtime`, the
layers below.
Used by: `cli.tools`, `lab.torture.checker`, `lab.torture.history`.
"""
