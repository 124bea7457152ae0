"""The connection to the broker, as the parts of a node share it: sender, session state, the broker's clock, control calls.

May import: the layers below.
Used by: `node`, `node.agents`, `node.artifacts`, `node.delegations`.
"""
