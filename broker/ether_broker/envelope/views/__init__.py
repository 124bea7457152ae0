"""The envelopes in the words of the spec's documents, without loss both ways; one module a vocabulary."""
