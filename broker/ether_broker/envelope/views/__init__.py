"""Views: the envelopes in the vocabulary of each specification, converted without loss both ways; a module a vocabulary.

May import: `encoding`, `envelope`, `envelope.manifest`, `errors`, `name_hint`.
Used by: `wire`, the layers above.
"""
