"""Discovery of brokers on the local network by multicast DNS (RFC 6762, RFC 6763), service type `_ether._tcp`.

From the bottom up:

    advert       what a broker says of itself; anybody on the network could say it
    addresses    which addresses of this machine others reach, and which of theirs to try first
    mdns         the library, imported when it is used (`agent-ether[lan]`)
    advertiser   announces a broker for as long as it runs
    browser      listens for adverts
    selection    which of them is meant, and whether it may be trusted
    locate       all of it: from a name to an address that takes connections

Without the network, `own_clusters` tells this user's clusters of this machine that are not at their name's default address,
over `abstract_sockets`, and `listening` lists all that run.

May import: `envelope`, `errors`, `name_hint`, `transport`.
Used by: the layers above.
"""
