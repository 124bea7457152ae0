"""The whole bus in one thread on virtual time: broker, journal, wire, nodes, delegators and observers, with seeded faults.

    __main__       seeds from the command line, in several processes
    world          one seed's world: builds it, moves it, heals it, and asks whether it came to rest
    scenario       what a seed draws: sizes, speeds, and the mix of faults
    faults         who breaks what, and when
    auditor        the invariants, checked after every step
    member, broker the processes; each may crash and begin another life
    resources      what a node runs on here: coroutines without an event loop, turns on the timeline
    link, network  the wire: connections that delay, break, repeat and are partitioned
    disk           the journal's disk: what was synced survives a crash, the rest does not
    timeline       what happens next, and clocks that do not quite agree
    workload       what is asked, and what the agents do with it
    retries        what is tried again, how often and until when
    timers         agents that act by themselves, and when
    scaling        instances that come and go, and when
    outstanding    how much nodes are told that their instances have to do
    moves          agents that move to another node, and what waits for them
    blocking       calls of the product that wait, in threads that take turns with the timeline
    raw, hostile   sessions that speak the protocol by themselves; some of them mean harm
    answers        that no answer is lost on its way
    waits          how long who means well waits for who does not
    endless        what takes far too long is ended, and so found
    mutants        bugs planted on purpose, to see that each is found
    small_world    worlds so small that all that may happen in them is walked

What is real: the supervisor and all below it, `Channel` and `receive`, `ZmqLink`'s sending half, `Node` with all its
parts, cells, inboxes and guardians, observers and handles. What is simulated: sockets, threads, clocks, ids and the disk.

What is *not* drawn: bytes of an envelope other than hostile sessions make them (fuzzing is `tests/attacks`); SQLite, its files
and a journal that is altered or vanishes; ZeroMQ's queues, and messages that it cuts off; keys and certificates; handlers
in threads, and one that blocks the event loop; more than one broker on a journal; hostile sessions that register names of
agents that are away; a request id that is used again, without RESENT, after the broker has forgotten it; the whole bus's
bounds on agents and on memory; more than a thousand agents; how long Python takes, but for steps that take a second of
CPU; a node's wall clock that jumps; an agent that scales and moves; a request that is sent again while the first is on its
way, or to a bus without a journal.
"""
