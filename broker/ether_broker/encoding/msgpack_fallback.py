"""A substitute for ormsgpack where it has no wheel, made of msgpack: the same bytes, only slower."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date, datetime, time
from enum import Enum
from typing import Any, Final, NoReturn
from uuid import UUID

import msgpack

__all__ = ["OPT_NON_STR_KEYS", "MsgpackDecodeError", "MsgpackEncodeError", "packb", "unpackb"]

OPT_NON_STR_KEYS: Final = 1 << 1

_DEEPEST: Final = 255
"""Containers within each other that ormsgpack packs."""
_AS_THEY_ARE: Final = frozenset({type(None), bool, int, float, str, bytes, bytearray, memoryview})


class MsgpackEncodeError(TypeError):
    """A value that msgpack cannot carry."""


class MsgpackDecodeError(ValueError):
    """Bytes that do not begin with a value."""


def packb(value: Any, default: Callable[[Any], Any] | None = None, option: int | None = None) -> bytes:
    """As `ormsgpack.packb`.

    Raises:
        MsgpackEncodeError: something inside has a type that msgpack cannot carry, or is nested too deeply.
    """
    try:
        packed: bytes = msgpack.packb(_Plain(default, option or 0).value(value, 0))
    except (OverflowError, ValueError) as error:
        raise MsgpackEncodeError(str(error)) from error
    return packed


def unpackb(data: bytes, *, option: int = OPT_NON_STR_KEYS) -> Any:  # noqa: ARG001  the one that is ever wanted
    """As `ormsgpack.unpackb`.

    Raises:
        MsgpackDecodeError: the bytes do not begin with a value.
    """
    try:
        _unpacker(data).skip()  # a list says how long it is before its items: nothing is made for what is not there
        return _unpacker(data).unpack()
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise MsgpackDecodeError(str(error) or type(error).__name__) from error


def _unpacker(data: bytes) -> Any:
    unpacker = msgpack.Unpacker(
        max_buffer_size=len(data), strict_map_key=False, object_pairs_hook=_map, ext_hook=_refuse, max_ext_len=0
    )
    unpacker.feed(data)
    return unpacker


def _refuse(number: int, _data: bytes) -> NoReturn:
    raise MsgpackDecodeError(f"extension {number}")


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {tuple(map(_hashable, key)) if type(key) is list else key: value for key, value in pairs}


def _hashable(item: Any) -> Any:
    return tuple(map(_hashable, item)) if type(item) is list else item


class _Plain:
    """Values as msgpack knows them."""

    def __init__(self, default: Callable[[Any], Any] | None, option: int) -> None:
        self._default = default
        self._may_have_keys = bool(option & OPT_NON_STR_KEYS)

    def value(self, value: Any, depth: int) -> Any:
        if type(value) in _AS_THEY_ARE:
            return value
        if depth >= _DEEPEST:
            raise MsgpackEncodeError("Recursion limit reached")
        if (scalar := _scalar(value)) is not None:
            return scalar
        if isinstance(value, Enum):
            return self.value(value.value, depth)
        if isinstance(value, dict):
            return {self._key(key): self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list) or type(value) is tuple:
            return [self.value(item, depth + 1) for item in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return {name: self.value(getattr(value, name), depth + 1) for name in names if name[0] != "_"}
        if self._default is None:
            raise MsgpackEncodeError(f"Type is not msgpack serializable: {type(value).__name__}")
        return self.value(self._default(value), depth + 1)

    def _key(self, key: Any) -> Any:
        if type(key) is str:
            return key
        if not self._may_have_keys:
            raise MsgpackEncodeError("Dict key must be str")
        if isinstance(key, Enum):
            return self._key(key.value)
        if type(key) is tuple:
            return tuple(self._key(item) for item in key)
        if key is None or type(key) in (bool, float, bytes) or isinstance(key, (int, str)):
            return key
        scalar = _scalar(key)
        if scalar is None:
            raise MsgpackEncodeError(f"A {type(key).__name__} is no key of a map")
        return scalar


def _scalar(value: Any) -> Any:
    """A value of a type that travels as text, or of one derived from text or whole numbers; None for any other."""
    if type(value) is datetime:
        offset = value.utcoffset()
        text = value.isoformat()
        return text[:-3] if offset is not None and offset.total_seconds() % 60 else text  # an offset has no seconds
    if type(value) is date or (type(value) is time and value.tzinfo is None):
        return value.isoformat()
    if type(value) is UUID:
        return str(value)
    return value if isinstance(value, (int, str)) and not isinstance(value, Enum) else None
