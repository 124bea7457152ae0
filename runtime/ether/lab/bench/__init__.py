"""`ether bench`: how fast and how large the bus is, beside others that do the same, in one run on this machine.

    main.run ── Case ──► Deployment ── starts ──► Peer … Peer      one process each, `ether.lab.harness.peer_main`
                  │           └── reads their CPU time and memory from outside, in /proc
                  └──► Sample of each round ──► Figure: a median of ratios, beside its target

Absolute times say what the machine did at that minute; only ratios within one run are compared. Importing this
package imports neither NATS nor anything else of an extra.

May import: `lab`, `lab.bench.baselines`, `lab.bench.cases`, `lab.harness`, `text_io`, `version`, the layers below.
Used by: `cli.tools`, `lab.bench.cases`.
"""
