"""Commands about the installation: `ether doctor`, `ether keys`, `ether schema` and `ether version`.

May import: `cli.common`, `cluster`, `version`, the layers below.
Used by: `cli`.
"""
