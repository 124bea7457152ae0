"""The ground floor of Ether: what travels between agents, and how.

General layout, from the bottom up:

    errors, status, clock, ids, version        words that every other module uses
    frozen, payload, model                     values that do not change
    delegation, response, manifest, views/     the envelopes, and the spec's other vocabularies as views of them
    wire, codec                                envelopes as bytes
    mailbox, dead_letters, tap, router         what the broker keeps: state machines without sockets or clocks
    journal/                                   all that passed, in a file that outlives the broker
    broker, link, transports/                  thin shells round sockets

Nothing here knows of actors or agents' code; users import from `ether`.
"""
