"""The notation of ids, numbers and times in the vocabularies, and in the envelopes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from ether_broker.encoding.frozen import freeze, thaw
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import foreign_id, to_text
from ether_broker.envelope.names import NAME_PATTERN
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.name_hint import nearest

__all__ = [
    "ANYONE",
    "AgentOrAnyone",
    "Confidence",
    "ForeignId",
    "FrozenValue",
    "Positive",
    "StatusName",
    "Timestamp",
    "canonical_id",
    "foreign_name",
    "identity",
    "milliseconds",
    "number",
    "read_number",
    "read_time",
    "write_time",
]

ANYONE: Final = "*"
"""Stands where a vocabulary demands an agent's name and the envelope has none: the registry chooses."""

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EXACT: Final = 2.0**53
"""Up to here every whole number is a float of its own."""


def canonical_id(text: str) -> str:
    """The request id that stands for an id of another vocabulary; see `ids.foreign_id`."""
    return to_text(foreign_id(text))


def identity(text: str) -> dict[str, str]:
    """The envelope's fields for an id of another vocabulary; the text is kept unless it is canonical."""
    request_id = canonical_id(text)
    fields = {"request_id": request_id}
    return fields if request_id == text else {**fields, "external_id": text}


def foreign_name(envelope: Delegation | Response) -> str:
    """The id that another vocabulary knows the envelope by; never empty."""
    return envelope.external_id or envelope.request_id or canonical_id("")


def number(value: float) -> float:
    """A whole float as an int, since documents write 15 rather than 15.0."""
    value = float(value)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def read_number(value: Any) -> float | None:
    """A number that is not negative, as float; None for anything else, NaN and what no float can be."""
    if type(value) is not int and type(value) is not float:
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if result >= 0 else None


def milliseconds(seconds: float) -> float:
    """Seconds in milliseconds, whole when that is exact."""
    scaled = seconds * 1000
    if scaled < _EXACT and round(scaled) / 1000 == seconds:
        return round(scaled)
    return scaled


def read_time(text: Any) -> float | None:
    """Seconds since 1970 of an RFC 3339 time, such as `2025-10-06T15:40:00Z`; None for anything else."""
    if not isinstance(text, str) or not _RFC3339.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError):
        return None


def write_time(seconds: float | None) -> str | None:
    """The time in RFC 3339 in UTC, to the microsecond; None for None and for years that it cannot write."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def _time(text: str) -> str:
    if read_time(text) is None:
        raise ValueError(f"{text!r} is no RFC 3339 time, such as 2025-10-06T15:40:00Z")
    return text


def _status(value: Any) -> Status:
    if isinstance(value, Status):
        return value
    if isinstance(value, str) and value in Status.__members__:
        return Status[value]
    raise ValueError(f"{value!r} is no status code.{nearest(str(value), Status.__members__)}")


def _real(value: Any) -> Any:
    if type(value) is not int and type(value) is not float:
        raise ValueError(f"expected a number, and found {value!r}")
    return value


_OVER_ZERO: Final[dict[str, Any]] = {"type": "number", "exclusiveMinimum": 0}
_TO_ONE: Final[dict[str, Any]] = {"type": "number", "minimum": 0, "maximum": 1}

ForeignId = Annotated[str, Field(min_length=1)]
"""An id of another vocabulary."""
AgentOrAnyone = Annotated[str, Field(pattern=f"({NAME_PATTERN}|^\\*$)", max_length=200)]
"""An agent's name or `ANYONE`."""
Timestamp = Annotated[str, AfterValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time in RFC 3339, kept as it was written."""
Positive = Annotated[int | float, Field(gt=0), BeforeValidator(_real), WithJsonSchema(_OVER_ZERO)]
"""A number over 0 that stays an int when it was one."""
Confidence = Annotated[int | float, Field(ge=0, le=1), BeforeValidator(_real), WithJsonSchema(_TO_ONE)]
"""0 to 1; stays an int when it was one."""
StatusName = Annotated[
    Status,
    PlainValidator(_status),
    PlainSerializer(lambda status: status.name),
    WithJsonSchema({"type": "string", "enum": list(Status.__members__)}),
]
"""A status code by its name."""
FrozenValue = Annotated[Any, AfterValidator(freeze), PlainSerializer(thaw)]
"""Any value, deeply frozen."""
