"""The metrics observer: counters, sliding windows, the snapshot, and Prometheus' text format.

    metrics ──► counters, sliding_window, quantile_sketch    what is counted: in each group, over time, of durations
            ──► open_delegations                             delegations whose outcome is still to come
            ──► snapshot ──► rates_and_means                 the frozen snapshot, as JSON
                         ──► latency_quantiles               p50, p90 and p99 of the turnarounds
                         ──► definitions                     what each metric means, and its target
            ──► prometheus                                   the same as text for Prometheus

May import: `observers`, the layer below.
Used by: the layer above.
"""
