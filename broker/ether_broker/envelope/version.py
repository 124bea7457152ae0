"""Versions of the wire protocol and of the envelopes' schema, and what a newer one means."""

from __future__ import annotations

import re
from typing import Final

from ether_broker.errors import IncompatibleVersion, InvalidEnvelope

__all__ = [
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "SCHEMA_PATTERN",
    "SCHEMA_VERSION",
    "check_schema_version",
    "is_semantic",
]

PROTOCOL_MAJOR: Final = 2
PROTOCOL_MINOR: Final = 1
SCHEMA_VERSION: Final = "1.0"
"""Major and minor of the envelopes: a minor adds optional fields, a major may change the meaning of one."""

SCHEMA_PATTERN: Final = r"^1\.\d{1,4}$"
"""The versions whose envelopes have the meaning that ours have: those of our major."""

_OURS = tuple(int(part) for part in SCHEMA_VERSION.split("."))
_SCHEMA = re.compile(r"(\d{1,4})\.(\d{1,4})")
_SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def is_semantic(version: str) -> bool:
    """Whether the text is a semantic version (semver.org 2.0.0), such as `1.2.0` or `2.0.0-rc.1`."""
    return _SEMANTIC.fullmatch(version) is not None


def check_schema_version(version: str) -> bool:
    """Say whether a document of this schema version may have fields that we do not know.

    Returns:
        True for a newer minor version, whose unknown fields are to be ignored; False for ours or an older one.

    Raises:
        IncompatibleVersion: a newer major version.
        InvalidEnvelope: not `MAJOR.MINOR`.
    """
    if version == SCHEMA_VERSION:
        return False
    match = _SCHEMA.fullmatch(version)
    if match is None:
        raise InvalidEnvelope(f"schema_version {version!r} is not MAJOR.MINOR, such as {SCHEMA_VERSION!r}.")
    major, minor = int(match[1]), int(match[2])
    if major > _OURS[0]:
        msg = f"The envelope has schema version {version} and this Ether reads {SCHEMA_VERSION}: upgrade agent-ether."
        raise IncompatibleVersion(msg)
    return (major, minor) > _OURS
