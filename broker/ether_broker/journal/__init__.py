"""The journal: every envelope that passed, numbered and hash-chained, so that a broker that dies loses nothing.

Who uses what, from the bottom up:

    record, journal             what is stored, and the protocol of whatever stores it
    memory                      the journal that keeps nothing
    failure, lock, layout       SQLite's errors as ours, one writer, the tables and their versions
    bodies, row, chain          a commit as bytes: large bodies by content, batches as they came, its hash
    store, index, retention     writing a commit, finding in it by request, giving it up
    rows, search                reading commits back, and looking for some
    writer                      the thread that commits
    place                       where the journal of a cluster is
    sqlite, reader, verify      the broker's journal, everybody else's view of it, and the proof that it is whole

`docs/journal.md` has the layout for people who read it with SQL. Nothing here imports `sqlite3` before it is used.
"""
