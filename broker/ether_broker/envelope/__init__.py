"""The envelopes: delegation, response, manifest and artifact, with their names, ids, versions and payloads.

May import: `encoding`.
Used by: every room above; users import its classes from `ether`.
"""
