"""The bottom layer of Ether: what travels between agents, and how.

    discovery/     brokers on the local network
    transport/     sessions, channels, who may send how much; zeromq/ has the sockets
    journal/       all that passed; sqlite/ has the file that outlives the broker
    wire/          envelopes as bytes, and their JSON Schemas
    envelope/      delegation, response, manifest, artifact; views/ has the specifications' vocabularies
    encoding/      msgpack with limits, containers that do not change
    security/      keys, identities, access lists

A package imports those below it. Nothing here knows of actors or agents' code; users import from `ether`.
"""
