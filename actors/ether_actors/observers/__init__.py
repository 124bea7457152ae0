"""Observers: who is shown every message; the log and the probe that come with Ether, and `metrics/`.

    observer           what an observer is, and what it is shown
    observer_thread    where it runs
    log ──► log_entry  a line for each message
    probe              for tests: records, and waits for what should pass

All of them are ordinary observers, made with nothing that yours could not use too.

May import: `task`, `threads`, the layer below.
Used by: `execution`, `observers.metrics`, the layer above.
"""
