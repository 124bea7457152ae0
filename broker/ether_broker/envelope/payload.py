"""A body as it travels: packed bytes that nobody can change, read when somebody asks."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ether_broker.encoding.bounded import MOST_CONTAINERS, check_containers
from ether_broker.encoding.frozen import freeze, thaw
from ether_broker.errors import InvalidEnvelope, Unserialisable
from ether_broker.text import error_with_class

try:
    import ormsgpack
except ImportError:
    from ether_broker.encoding import msgpack_fallback as ormsgpack  # type: ignore[no-redef]  # the same functions

__all__ = ["EMPTY", "MAX_PAYLOAD", "Payload", "pack", "readable", "unpack"]

MAX_PAYLOAD: Final = 1 << 20
"""Bytes that one envelope may have; the default limit of a bus (1 MiB)."""

_OPTIONS = ormsgpack.OPT_NON_STR_KEYS


def _convert(value: Any) -> Any:
    if isinstance(value, BaseModel):
        try:
            return _dump(value)
        except Exception as error:  # whatever a serializer of the model raises
            raise TypeError(error_with_class(error)) from error
    if isinstance(value, Payload):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"Type is not msgpack serializable: {type(value).__name__}")


def _dump(model: BaseModel) -> Any:
    return model.model_dump(by_alias=True, warnings=False)


_TRAVELS: Final = (
    "numbers, text, bytes, lists, dicts, dataclasses or pydantic models, whose fields may have serializers"
)


def pack(value: Any, *, where: str = "value", bounded: bool = False) -> bytes:
    """Pack a value with msgpack; of a payload, its bytes as they are.

    Takes None, bool, int of 64 bits, float, str, bytes, and dicts, lists and tuples of such; also dataclasses, enums,
    datetimes (as RFC 3339 text), UUIDs and paths (as text), and pydantic models, as their `model_dump(by_alias=True)`.

    Args:
        value: what is packed.
        where: what it is, for the error.
        bounded: whether it may have no more than 65,536 maps and lists, as a payload.

    Raises:
        Unserialisable: something inside is none of these; the message names where it is.
        InvalidEnvelope: it is `bounded`, and has more.
    """
    if type(value) is Payload:
        return value.packed
    try:
        packed = ormsgpack.packb(value, _convert, _OPTIONS)
    except (ormsgpack.MsgpackEncodeError, TypeError) as error:
        path, culprit, why = _find(value, where, error)
        instead = getattr(type(culprit), "__ether_instead__", None)
        raise Unserialisable(
            f"{path} is a {type(culprit).__name__}, which cannot travel"
            + (f": {instead}." if instead else f" ({why}): pass {_TRAVELS}.")
        ) from error
    if bounded and len(packed) > MOST_CONTAINERS:
        check_containers(packed)
    return packed


def _find(value: Any, path: str, why: Exception) -> tuple[str, Any, Exception]:
    """The innermost value that does not pack, with its path, and what was raised."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        items = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    elif isinstance(value, BaseModel):
        try:
            dumped = _dump(value)
        except Exception as error:  # noqa: BLE001  whatever a serializer of the model raises
            return path, value, TypeError(error_with_class(error))
        if not isinstance(dumped, Mapping):
            return (path, value, why) if type(dumped) is type(value) else _find(dumped, path, why)
        items = [(f"{path}.{name}", item) for name, item in dumped.items()]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]  # others do not travel
        items = [(f"{path}.{name}", getattr(value, name, None)) for name in names]
    for where, item in items:
        try:
            ormsgpack.packb(item, _convert, _OPTIONS)
        except (ormsgpack.MsgpackEncodeError, TypeError) as error:
            return _find(item, where, error) if len(where) < 200 else (where, item, error)  # noqa: PLR2004
    return path, value, why


def unpack(data: bytes, *, bounded: bool = False) -> Any:
    """Read msgpack into plain Python values; maps may have keys of any scalar type.

    Bytes after the first value are not looked at: ormsgpack does not tell of them.

    Args:
        data: what is read.
        bounded: whether it may have no more than 65,536 maps and lists, as a payload.

    Raises:
        InvalidEnvelope: the bytes do not begin with a msgpack value, or it is `bounded`, and has more.
    """
    if bounded and len(data) > MOST_CONTAINERS:
        check_containers(data)
    try:
        return ormsgpack.unpackb(data, option=ormsgpack.OPT_NON_STR_KEYS)
    except ormsgpack.MsgpackDecodeError as error:
        msg = f"The body is not msgpack ({error}): it was made by something that does not speak this protocol."
        raise InvalidEnvelope(msg) from error


def readable(packed: bytes) -> Any:
    """What packed bytes say, in plain values to be shown; the bytes themselves where they cannot be read within bounds."""
    try:
        return thaw(Payload(packed).value)
    except (InvalidEnvelope, ValueError, TypeError):
        return packed


class Payload:
    """A body in its packed form; the bytes are the truth, so nothing that a reader does can change it.

    Two payloads are equal when their values are. Making one packs the value at once, so that a later change of what was
    passed in is not seen.
    """

    __slots__ = ("_packed", "_value")

    packed: Final[bytes] = property(attrgetter("_packed"))  # type: ignore[assignment]  # read in C: 30 ns
    """The msgpack bytes, as they travel."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    @classmethod
    def of(cls, value: Any, *, where: str = "value") -> Payload:
        """Pack a value; a payload is returned as it is.

        Raises:
            Unserialisable: see `pack`.
            InvalidEnvelope: it has more than 65,536 maps and lists.
        """
        return value if type(value) is cls else cls(pack(value, where=where, bounded=True))

    @property
    def value(self) -> Any:
        """The value, deeply frozen; read once, then kept.

        Raises:
            InvalidEnvelope: the bytes do not begin with a msgpack value, or have more than 65,536 maps and lists.
        """
        try:
            return self._value
        except AttributeError:
            self._value: Any = freeze(self.thawed())
            return self._value

    def thawed(self) -> Any:
        """A plain copy of its own for each caller, who may change it; raises as `value`."""
        return unpack(self._packed, bounded=True)

    def digest(self) -> str:
        """`sha256:` and the hex digest of the value's canonical JSON (RFC 8785), whatever the order of its keys.

        Raises:
            InvalidEnvelope: the value has something that JSON has not (bytes, NaN, keys that are no text).
        """
        import hashlib

        import rfc8785

        try:
            canonical = rfc8785.dumps(thaw(self.value))
        except (rfc8785.CanonicalizationError, TypeError) as error:
            msg = f"Only what JSON can say has a digest: {error}. Put bytes into params or an artifact."
            raise InvalidEnvelope(msg) from error
        return f"sha256:{hashlib.sha256(canonical).hexdigest()}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Payload):
            return NotImplemented
        return self.packed == other.packed or bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Payload({self.value!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Any serialisable value validates; it is packed at once and dumped as a plain value."""
        return core_schema.no_info_plain_validator_function(
            cls._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda payload: thaw(payload.value)),
        )

    @classmethod
    def _validate(cls, value: Any) -> Payload:
        return cls.of(value)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Any JSON value."""
        return {}


EMPTY: Final = Payload(pack(None))
"""No body: None."""
