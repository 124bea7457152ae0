"""An outcome in a diary: as much of a response as tells whether two of them are the same."""

from __future__ import annotations

import hashlib
from typing import Any

from ether_broker.envelope.response import Response

__all__ = ["mark_of", "outcome_fields"]


def mark_of(response: Response) -> str:
    """A short digest of what the response says; equal for equal outcomes, whatever way they went."""
    parts = (
        response.request_id, response.status.name, response.from_agent, response.attempt, response.summary,
        response.error.code if response.error else "", response.data_payload.digest(),
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def outcome_fields(response: Response) -> dict[str, Any]:
    """What a diary says of an outcome."""
    return {
        "status": response.status.name,
        "code": response.error.code if response.error else "",
        "attempt": response.attempt,
        "mark": mark_of(response),
    }
