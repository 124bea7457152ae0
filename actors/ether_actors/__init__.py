"""The middle layer of Ether: who acts.

    supervisor/    the actor that holds every delegation to its contract, and all that it keeps
    restarts/      OTP's supervision trees as a state machine, and the runner of what it decides
    execution/     where agents' handlers run on a node
    observers/     who sees everything; metrics/
    agent/         Agent, its capabilities and its inbox
    task/          one delegation at its two ends: task, handle, budget, lease
    threads/       the pool of threads and the event loop

A package imports those below it, and the layer below, `ether_broker`. Nothing here opens a socket or knows of processes; users
import from `ether`.
"""
