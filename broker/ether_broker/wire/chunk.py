"""The pieces in which the bytes of an artifact travel: what a FETCH asks for, and the bounds of FETCH and CHUNK."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from ether_broker.envelope.artifact import Artifact
from ether_broker.envelope.model import Model

__all__ = ["MOST_CHUNK", "MOST_FETCH", "MOST_OPEN", "ChunkRequest"]

MOST_CHUNK: Final = 256 << 10
"""Bytes of the body of one CHUNK."""
MOST_FETCH: Final = 8 << 10
"""Bytes of the body of a FETCH."""
MOST_OPEN: Final = 32
"""FETCHes of one node that have no answer yet."""


class ChunkRequest(Model):
    """The body of a FETCH: which bytes of which artifact."""

    artifact: Artifact
    offset: Annotated[int, Field(ge=0, lt=1 << 63)]
    length: Annotated[int, Field(gt=0, le=MOST_CHUNK)]
