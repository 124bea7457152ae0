"""Who may be on the bus, and what each may do there: keys, the keyring, authentication, access lists."""
