"""The code review: every directory under every pass, fanned out over agents, reduced to one report.

General layout, from the bottom up:

    plan               which tasks there are; what a wrong directory is told
    outcome            what became of one task
    progress           how the work is shown: lines
    driver             delegates the tasks and follows them; delegates the reduction
    report, markdown_report   one data model, as review.json and as review.md
    bus                a cluster, or everything in this process
    job                all of it in order, with exit codes

May import: `cluster`, `review.scout`, `review.scout.files`, `review.scout.findings`, `runtime`, `text_io`, the layers
below.
Used by: `cli.tools`.
"""
