"""Views: the envelopes in the vocabulary of each specification, converted without loss both ways; a module a vocabulary.

May import: `envelope`, `encoding`.
Used by: `wire.json_schema`, `ether.views`.
"""
