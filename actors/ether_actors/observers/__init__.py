"""The observers that come with Ether; users import them from `ether.observers`.

Each has a module of its own, and all are ordinary observers, made with nothing that yours could not use too.

    metrics ──► tally, window, sketch    what is counted: in each group, over time, of durations
            ──► open_table               delegations whose outcome is still to come
            ──► statistics ──► figures   the frozen snapshot, as JSON
                           ──► definitions: what each metric means, and its target
            ──► prometheus               the same as text for Prometheus
    log     ──► log_entry                a line for each message
    probe                                for tests: records, and waits for what should pass
"""
