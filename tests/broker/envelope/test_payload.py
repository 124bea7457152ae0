from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from pydantic import BaseModel, Field, RootModel, computed_field, field_serializer

from ether_broker.envelope.payload import EMPTY, MAX_PAYLOAD, Payload, pack, unpack
from ether_broker.errors import InvalidEnvelope, Unserialisable
from tests.broker.encoding.test_frozen import inside
from tests.broker.strategies import bodies, json_values

pytestmark = pytest.mark.usefixtures("_either_msgpack")


class Colour(Enum):
    RED = "red"


class Topic(BaseModel):
    name: str
    depth: int = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Folder:
    def __fspath__(self) -> str:
        return "work/ing"


@given(bodies)
def test_what_is_packed_is_read_back(value: Any):
    assert Payload.of(value).value == value
    assert unpack(pack(value)) == value


@given(bodies)
def test_changing_what_was_packed_changes_nothing(value: Any):
    before = copy.deepcopy(value)
    payload = Payload.of(value)

    for container in list(inside(value)):
        container.clear()

    assert payload.value == before


@given(bodies)
def test_changing_a_thawed_copy_changes_nothing(value: Any):
    payload = Payload.of(value)

    for container in list(inside(payload.thawed())):
        container.clear()

    assert payload.value == value
    assert payload.thawed() == value


@given(bodies)
def test_copies_and_pickles_are_equal(value: Any):
    payload = Payload.of(value)
    for again in (copy.copy(payload), copy.deepcopy(payload), pickle.loads(pickle.dumps(payload))):
        assert again == payload
        assert hash(again) == hash(payload)


def test_the_bytes_of_a_payload_cannot_be_replaced():
    payload = Payload.of({"a": 1})

    with pytest.raises(AttributeError):
        payload.packed = pack({"a": 2})  # type: ignore[misc]
    with pytest.raises(AttributeError):
        payload.value = {"a": 2}  # type: ignore[misc]
    with pytest.raises(AttributeError):
        payload.other = 1  # type: ignore[attr-defined]


def test_a_value_is_read_once_and_kept():
    payload = Payload.of({"a": [1]})

    assert payload.value is payload.value


def test_payloads_are_equal_when_their_values_are():
    one, other = Payload.of({"a": 1, "b": 2}), Payload.of({"b": 2, "a": 1})

    assert one.packed != other.packed
    assert one == other
    assert hash(one) == hash(other)
    assert one != Payload.of({"a": 1})
    assert one != {"a": 1, "b": 2}


def test_a_payload_shows_its_value():
    assert repr(Payload.of({"a": [1]})) == "Payload({'a': [1]})"


def test_a_payload_is_not_packed_again():
    payload = Payload.of([1])

    assert Payload.of(payload) is payload
    assert Payload.of({"inner": payload}).value == {"inner": [1]}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (Topic(name="ZeroMQ"), {"name": "ZeroMQ", "depth": 2}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Colour.RED, "red"),
        (datetime(2025, 10, 6, 15, 40, tzinfo=UTC), "2025-10-06T15:40:00+00:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (Folder(), "work/ing"),
        ((1, 2), [1, 2]),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({1: "one", b"k": 2, None: 3}, {1: "one", b"k": 2, None: 3}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_these_kinds_of_values_travel(value: Any, read: Any):
    assert Payload.of(value).value == read


class Line(BaseModel):
    price: Decimal


class Order(BaseModel):
    lines: list[Line]


@dataclasses.dataclass
class Point:
    x: Any
    _own: object = object()  # does not travel


class Loose(BaseModel, extra="allow"):
    pass


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), r"value is a object"),
        ({"a": [0, {"b": object()}]}, r"value\['a'\]\[1\]\['b'\] is a object"),
        ([1, {2, 3}], r"value\[1\] is a set"),
        ({"f": len}, r"value\['f'\] is a builtin_function_or_method"),
        ({"z": 1j}, r"value\['z'\] is a complex"),
        ([2**64], r"value\[0\] is a int"),
        ({"half": "\ud800"}, r"value\['half'\] is a str"),
        (Order(lines=[Line(price=Decimal("1.10"))]), r"value\.lines\[0\]\['price'\] is a Decimal"),
        ({"point": Point({1})}, r"value\['point'\]\.x is a set"),
        (Loose(more={1}), r"value\.more is a set"),
    ],
)
def test_what_cannot_travel_is_named_with_its_place(value: Any, where: str):
    with pytest.raises(Unserialisable, match=rf"^{where}, which cannot travel .*: pass numbers, text"):
        Payload.of(value)


class Priced(BaseModel):
    name: str = Field("pen", alias="title")
    price: Decimal = Decimal("1.10")
    tags: set[str] = {"b", "a"}
    secret: str = Field("s3cret", exclude=True)

    @field_serializer("price")
    def as_text(self, price: Decimal) -> str:
        if not price:
            raise ValueError("priceless")
        return str(price)

    @field_serializer("tags")
    def as_list(self, tags: set[str]) -> list[str]:
        return sorted(tags)

    @computed_field
    def cents(self) -> int:
        return int(self.price * 100)


def test_a_model_travels_as_it_serialises_itself():
    seen = {"title": "pen", "price": "1.10", "tags": ["a", "b"], "cents": 110}

    assert unpack(pack({"all": [Priced(), RootModel[list[Priced]]([Priced()])]})) == {"all": [seen, [seen]]}


def test_what_a_serializer_of_a_model_raises_is_told():
    with pytest.raises(Unserialisable, match=r"^value\['x'\] is a Priced, which cannot travel .*ValueError: priceless"):
        pack({"x": Priced(price=Decimal(0))})


def test_the_place_starts_with_the_name_that_is_given():
    with pytest.raises(Unserialisable, match=r"^params\['x'\] is a object"):
        pack({"x": object()}, where="params")


def test_a_value_that_holds_itself_is_refused_with_a_bounded_message():
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(Unserialisable) as caught:
        pack(loop)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\xa1a", b"\xdd\xff\xff\xff\xff"])
def test_bytes_that_are_no_value_are_refused(data: bytes):
    with pytest.raises(InvalidEnvelope, match="The body is not msgpack"):
        unpack(data)


def test_the_empty_payload_is_none():
    assert EMPTY.value is None
    assert Payload.of(None) == EMPTY
    assert MAX_PAYLOAD == 1024 * 1024


@given(json_values)
def test_the_digest_does_not_depend_on_the_order_of_keys(value: Any):
    def reversed_keys(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: reversed_keys(item[key]) for key in reversed(item)}
        return [reversed_keys(inner) for inner in item] if isinstance(item, list) else item

    try:
        digest = Payload.of(value).digest()
    except InvalidEnvelope:  # an integer over 2**53, which RFC 8785 does not write
        return
    assert digest == Payload.of(reversed_keys(value)).digest()
    assert digest.startswith("sha256:")
    assert len(digest) == len("sha256:") + 64


def test_the_digest_is_that_of_canonical_json():
    # printf '{"a":[1,2.5],"b":null}' | sha256sum
    expected = "sha256:f66b2c50ccae61e3f2445d2439f42efc245581b18ed184ce5d3c22fb58eed9c4"
    assert Payload.of({"b": None, "a": [1, 2.5]}).digest() == expected


@pytest.mark.parametrize("value", [b"bytes", {"x": float("nan")}, {1: "one"}])
def test_what_json_cannot_say_has_no_digest(value: Any):
    with pytest.raises(InvalidEnvelope, match="Only what JSON can say has a digest"):
        Payload.of(value).digest()
