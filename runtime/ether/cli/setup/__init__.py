"""Commands about the installation: `ether doctor`, `ether keys`, `ether schema` and `ether version`.

May import: `cli.common`, `cluster.file`, `version`, the layers below.
Used by: `cli`.
"""
