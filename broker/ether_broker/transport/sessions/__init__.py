"""The sessions of nodes at a broker: their table, who gets in, and how much each may send and hold.

May import: `encoding`, `envelope`, `errors`, `observer_cursor`, `security`, `sorted_keys`, `text`, `timing`, `transport`,
`wire`.
Used by: `transport`, `transport.in_process`, `transport.memory`, `transport.zeromq`, the layers above.
"""
