"""The metadata of a response, in which specs 1 and 3 tell how long it took and when it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.response import Response
from ether_broker.envelope.views.notation import milliseconds, read_number, read_time, write_time
from ether_broker.envelope.views.view import RESERVED

__all__ = ["read_timing", "write_timing"]


def read_timing(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope's `metadata`, `elapsed` and `timestamp`; what is neither stays in the metadata."""
    rest = {key: thaw(value) for key, value in metadata.items() if key != RESERVED}
    duration, moment = read_number(rest.get("duration_ms")), read_time(rest.get("timestamp"))
    if duration is not None:
        del rest["duration_ms"]
    if moment is not None:
        del rest["timestamp"]
    return {
        "metadata": rest,
        "elapsed": None if duration is None else duration / 1000,
        "timestamp": moment,
    }


def write_timing(response: Response) -> dict[str, Any]:
    """A view's metadata: the response's, with `duration_ms` and `timestamp` where it has them."""
    metadata = {key: thaw(value) for key, value in response.metadata.items() if key != RESERVED}
    if response.elapsed is not None:
        metadata["duration_ms"] = milliseconds(response.elapsed)
    moment = write_time(response.timestamp)
    if moment is not None:
        metadata["timestamp"] = moment
    return metadata
