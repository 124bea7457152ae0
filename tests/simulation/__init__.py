"""The whole bus in one thread on virtual time: broker, journal, wire, nodes, delegators and observers, with seeded faults.

    __main__       seeds from the command line, in several processes
    world          one seed's world: builds it, moves it, heals it, and asks whether it came to rest
    scenario       what a seed draws: sizes, speeds, and the mix of faults
    faults         who breaks what, and when
    auditor        the invariants, checked after every step
    member, broker the processes; each may crash and begin another life
    machinery      what a node runs on here: coroutines without an event loop, turns on the timeline
    link, network  the wire: connections that delay, break, repeat and are partitioned
    disk           the journal's disk: what was synced survives a crash, the rest does not
    timeline       what happens next, and clocks that do not quite agree
    workload       what is asked, and what the agents do with it
    mutations      bugs planted on purpose, to see that each is found

What is real: the supervisor and all below it, `Channel` and `receive`, `ZmqLink`'s sending half, `Node` with all its
parts, cells, inboxes and guardians, observers and handles. What is simulated: sockets, threads, clocks, ids and the disk.
"""
