"""Envelopes as bytes and back: the header carries what routes, the msgpack body the rest.

pydantic validates an envelope where it is made and once more where it arrives from another process; packing takes the
fields as they are. Fields at their default do not travel.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ether_broker.encoding.bounded import MOST_CONTAINERS, OURS, check_shape
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.model import Model
from ether_broker.envelope.payload import EMPTY, MAX_PAYLOAD, Payload, pack, unpack
from ether_broker.envelope.priority import BITS, NOT_NORMAL, WORDS, priority_of
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import BY_CODE, INTERIM, Status
from ether_broker.envelope.version import SCHEMA_VERSION
from ether_broker.errors import InvalidEnvelope, PayloadTooLarge
from ether_broker.wire.frame import HEADER, Flag, Header, Kind, folded_of, pack_envelope

try:
    import ormsgpack
except ImportError:
    from ether_broker.encoding import msgpack_fallback as ormsgpack  # type: ignore[no-redef]  # the same functions

__all__ = [
    "external_id",
    "id_bytes",
    "pack_delegation",
    "pack_outcome",
    "pack_plain_delegation",
    "pack_response",
    "plain_params",
    "read_delegation",
    "read_response",
]

_IN_HEADER: Final = frozenset(
    {
        "request_id",
        "from_agent",
        "to_agent",
        "capability",
        "parent",
        "attempt",
        "status",
        "durability",
        "priority",
        "fallback",
        "schema_version",
    }
)
_ROUTING: Final = _IN_HEADER - {"schema_version"}
_PAYLOADS: Final = {"params_payload": "params", "context_payload": "context_slice", "data_payload": "data"}
_PLAIN_REQUEST: Final = {"params": bytes, "timestamp": float, "timeout": float, "objective": str}
"""Fields that a look at their type shows valid (a float has to be above zero too): {name: type}."""
_PLAIN_DELEGATION: Final = {**_PLAIN_REQUEST, "context_slice": bytes}
_PLAIN_RESPONSE: Final = {"data": bytes, "timestamp": float, "elapsed": float, "summary": str}
_DELEGATION: Final = int(Kind.DELEGATION)
_RESPONSE: Final = int(Kind.RESPONSE)
_COMPLETED: Final = Status.COMPLETED.code
_VOLATILE: Final = int(Flag.VOLATILE)
_FALLTHROUGH: Final = int(Flag.FALLTHROUGH)
_EXTERNAL_ID: Final = ormsgpack.packb("external_id")
_MAP_SIZES: Final = {b"\xde": 3, b"\xdf": 5}
"""Bytes before the first key of a map; else it is one."""
_LONGEST_ID: Final = 1_003
"""Bytes of an `external_id` that is read by itself, with those that say how long it is."""
_packb = ormsgpack.packb
_KEYS: Final = ormsgpack.OPT_NON_STR_KEYS
_pack_header: Final = HEADER.pack
_NOTHING: Final = EMPTY.packed
_M = TypeVar("_M", bound=Model)


def id_bytes(request_id: str, field: str = "request_id") -> bytes:
    """The 16 bytes of a request id in canonical text.

    Args:
        request_id: the text.
        field: where it stands, for the error.

    Raises:
        InvalidEnvelope: it is no UUID; `ids.foreign_id` makes one of any text.
    """
    try:
        data = bytes.fromhex(request_id.replace("-", ""))
    except ValueError:
        data = b""
    if len(data) != 16:  # noqa: PLR2004  the bytes of a UUID
        msg = f"{field} {request_id!r:.80} is no UUID: leave it out, or convert an id of yours with ether.views.foreign_id."
        raise InvalidEnvelope(msg)
    return data


def _body(envelope: Model) -> bytes:
    fields = envelope.__dict__
    body: dict[str, Any] = {}
    if fields["external_id"] is not None:
        body["external_id"] = fields["external_id"]  # first, where `external_id` looks for it
    for name in envelope.__pydantic_fields_set__:
        if name in _IN_HEADER:
            continue
        value = fields[name]
        if type(value) is Payload:
            body[_PAYLOADS[name]] = value.packed
        elif value is not None:
            body[name] = value
    if fields["schema_version"] != SCHEMA_VERSION:
        body["schema_version"] = fields["schema_version"]
    try:
        return _packb(body)
    except (ormsgpack.MsgpackEncodeError, TypeError):
        return pack(_plain(body), where=type(envelope).__name__)


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """Nested models as the dicts that their own parse takes."""
    plain: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, Model):
            plain[name] = value.model_dump(by_alias=True, exclude_unset=True)
        elif isinstance(value, tuple):
            plain[name] = [
                item.model_dump(by_alias=True, exclude_unset=True) if isinstance(item, Model) else item
                for item in value
            ]
        else:
            plain[name] = value
    return plain


def pack_delegation(delegation: Delegation, *, deadline: float = 0.0, limit: int = MAX_PAYLOAD) -> bytes:
    """Make the envelope of a delegation.

    Args:
        delegation: `from_agent` must be set.
        deadline: seconds by the broker's clock; 0.0 is none.
        limit: bytes that the bus takes.

    Raises:
        PayloadTooLarge: the envelope has more bytes than `limit`.
        InvalidEnvelope: the request id is no UUID.
    """
    return pack_envelope(
        Kind.DELEGATION,
        request_id=id_bytes(delegation.request_id),
        source=(delegation.from_agent or "").encode(),
        target=(delegation.to_agent or "").encode(),
        capability=delegation.capability.encode(),
        body=_body(delegation),
        flags=(
            (_VOLATILE if delegation.durability == "memory" else 0)
            | (_FALLTHROUGH if delegation.fallback else 0)
            | BITS[delegation.priority]
        ),
        deadline=deadline,
        parent=id_bytes(delegation.parent, "parent") if delegation.parent else NO_ID,
        attempt=delegation.attempt,
        limit=limit,
    )


def external_id(header: Header, envelope: bytes) -> str | None:
    """The `external_id` of a delegation, where it is the first field of the body and no longer than 1,000 bytes; else None.

    For the broker, which reads no more of a body than this, however large it is.
    """
    begin = header.body + _MAP_SIZES.get(envelope[header.body : header.body + 1], 1)
    value = begin + len(_EXTERNAL_ID)
    if envelope[begin:value] != _EXTERNAL_ID:
        return None
    try:
        found = unpack(envelope[value : value + _LONGEST_ID])
    except InvalidEnvelope:
        return None
    return found if type(found) is str else None


def pack_response(
    response: Response, *, capability: bytes = b"", target: bytes = b"", limit: int = MAX_PAYLOAD
) -> bytes:
    """Make the envelope of a response to the delegator `target`.

    Raises:
        PayloadTooLarge: the envelope has more bytes than `limit`.
    """
    return pack_envelope(
        Kind.RESPONSE,
        status=response.status,
        request_id=id_bytes(response.request_id),
        source=(response.from_agent or "").encode(),
        target=target,
        capability=capability,
        body=_body(response),
        attempt=response.attempt,
        limit=limit,
    )


def pack_plain_delegation(
    request_id: bytes, source: bytes, target: bytes, capability: bytes, params: bytes, *, timeout: float | None,
    timestamp: float, deadline: float, limit: int = MAX_PAYLOAD,
) -> bytes:  # fmt: skip
    """Make the envelope of a delegation that says nothing but what, to whom, and until when.

    The same bytes as `pack_delegation` of that delegation, in a third of the time. The caller has checked the names and
    that the timeout is a positive float, and packed the parameters.

    Raises:
        PayloadTooLarge: the envelope has more bytes than `limit`.
    """
    body: dict[str, Any] = {"params": params, "timestamp": timestamp}
    if timeout is not None:
        body["timeout"] = timeout
    envelope = b"".join((
        _pack_header(
            _DELEGATION, 0, 0, len(source), len(target), len(capability), 1, deadline, request_id, NO_ID
        ),
        source, target, capability, _packb(body),
    ))  # fmt: skip
    if len(envelope) > limit:
        raise PayloadTooLarge(len(envelope), limit)
    return envelope


def plain_params(header: Header, envelope: bytes) -> bytes | None:
    """The packed parameters of a delegation whose fields a look at their types shows valid, without reading the rest of it.

    Returns:
        None for any other delegation: `read_delegation` validates it, and says what is wrong.
    """
    fields = _plain_fields(_PLAIN_REQUEST, header, envelope)
    return None if fields is None else fields.get("params", _NOTHING)


def pack_outcome(
    header: Header, data: bytes, *, elapsed: float, timestamp: float, limit: int = MAX_PAYLOAD
) -> bytes:  # fmt: skip
    """Make the envelope of a COMPLETED response that says nothing but its data, packed, straight from the delegation's header.

    The same bytes as `pack_response` of that response, in a third of the time: nothing in it needs validating.

    Raises:
        PayloadTooLarge: the envelope has more bytes than `limit`.
    """
    _, _, _, _, request_id, _, attempt, target, source, capability, _ = header  # whoever was asked speaks
    envelope = b"".join((
        _pack_header(
            _RESPONSE, _COMPLETED, 0, len(source), len(target), len(capability), attempt, 0.0, request_id, NO_ID
        ),
        source, target, capability, _packb({"data": data, "elapsed": elapsed, "timestamp": timestamp}),
    ))  # fmt: skip
    if len(envelope) > limit:
        raise PayloadTooLarge(len(envelope), limit)
    return envelope


def _plain_fields(plain: dict[str, type], header: Header, envelope: bytes) -> dict[str, Any] | None:
    """The fields of an envelope as they travel, if a look at their types shows all of them valid; else None."""
    packed = envelope[header.body :]
    if len(packed) > MOST_CONTAINERS or header.attempt <= 0:
        return None
    try:
        body: Any = ormsgpack.unpackb(packed, option=_KEYS)
    except ormsgpack.MsgpackDecodeError:
        return None
    if type(body) is not dict:
        return None
    for name, value in body.items():
        kind = plain.get(name)
        if type(value) is not kind or (kind is float and not value > 0.0):  # type: ignore[operator]  # kind says so
            return None
    return body


def _fields(plain: dict[str, type], header: Header, envelope: bytes) -> tuple[dict[str, Any], bool]:
    """The fields of an envelope as they travel, and whether a look at their types has shown them valid."""
    body: Any = unpack(envelope[header.body :], bounded=True)
    if type(body) is not dict:
        raise InvalidEnvelope(f"The body of an envelope is a map, and this one is a {type(body).__name__}.")
    is_plain = header.attempt > 0
    for name, value in body.items():
        kind = plain.get(name)
        if type(value) is not kind or (kind is float and not value > 0.0):  # type: ignore[operator]  # kind says so
            is_plain = False
            break
    if not is_plain and (twice := _ROUTING.intersection(body)):
        raise InvalidEnvelope(f"The body has {', '.join(sorted(twice))}, which the header alone may say.")
    return body, is_plain


def _made(model: type[_M], fields: dict[str, Any], header: Header, *, is_plain: bool) -> _M:
    fields["request_id"] = to_text(header.request_id)
    fields["attempt"] = header.attempt
    try:
        if header.source:
            fields["from_agent"] = header.source.decode()
        if model is Delegation:
            fields["capability"] = header.capability.decode()
            if header.target:
                fields["to_agent"] = header.target.decode()
    except UnicodeDecodeError as error:
        raise InvalidEnvelope(f"A name in the header is no UTF-8: {error.object!r} ({error.reason}).") from None
    for field, alias in _PAYLOADS.items():
        if type(fields.get(alias)) is bytes:
            fields[field if is_plain else alias] = Payload(fields.pop(alias))
    if is_plain:
        return model.trusted(fields)
    check_shape(fields, OURS)
    try:
        return model.__pydantic_validator__.validate_python(fields)  # type: ignore[no-any-return]
    except ValidationError:
        return model.parse(fields)


def read_delegation(header: Header, envelope: bytes) -> Delegation:
    """Read and validate a delegation that came from another process.

    The names in the header have been checked when they were registered; a body of plain fields needs no more than a look
    at their types, any other goes through pydantic.

    Raises:
        InvalidEnvelope: the body is no map, or its fields do not fit.
        IncompatibleVersion: it has a newer major schema version.
    """
    fields, is_plain = _fields(_PLAIN_DELEGATION, header, envelope)
    if header.parent != NO_ID:
        fields["parent"] = to_text(header.parent)
    if header.flags & _VOLATILE:
        fields["durability"] = "memory"
    if header.flags & NOT_NORMAL:
        fields["priority"] = WORDS[priority_of(header.flags)]
    if header.flags & _FALLTHROUGH:
        fields["fallback"] = True
    return _made(Delegation, fields, header, is_plain=is_plain)


def read_response(header: Header, envelope: bytes) -> Response:
    """Read and validate a response that came from another process; as `read_delegation`.

    PROGRESS into which the bus has folded others says in `metadata["folded"]` how many.

    Raises:
        InvalidEnvelope: the body is no map, or its fields do not fit.
        IncompatibleVersion: it has a newer major schema version.
    """
    status = BY_CODE.get(header.status)
    if status is not None and header.status not in INTERIM:
        plain = _plain_fields(_PLAIN_RESPONSE, header, envelope)
        if plain is not None:
            try:
                if header.source:
                    plain["from_agent"] = header.source.decode()
            except UnicodeDecodeError:
                pass  # which is said below
            else:
                plain["request_id"], plain["attempt"], plain["status"] = (
                    to_text(header.request_id),
                    header.attempt,
                    status,
                )
                if (data := plain.pop("data", None)) is not None:
                    plain["data_payload"] = Payload(data)
                return Response.trusted(plain)
    fields, is_plain = _fields(_PLAIN_RESPONSE, header, envelope)
    fields["status"] = header.status if status is None else status
    if (
        status is Status.PROGRESS
        and (folded := folded_of(header))
        and isinstance(metadata := fields.get("metadata", {}), dict)
    ):
        fields["metadata"], is_plain = {**metadata, "folded": folded}, False
    return _made(Response, fields, header, is_plain=is_plain and status is not None)
