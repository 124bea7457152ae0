from __future__ import annotations

import copy
import json
import operator
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.encoding.frozen import MAX_DEPTH, FrozenDict, FrozenList, freeze, thaw
from ether_broker.errors import InvalidEnvelope
from tests.broker.strategies import bodies

CHANGES_OF_A_DICT: dict[str, Callable[[Any], object]] = {
    "item assignment": lambda value: operator.setitem(value, "new", 1),
    "item deletion": lambda value: operator.delitem(value, next(iter(value), "none")),
    "in-place union": lambda value: operator.ior(value, {"new": 1}),
    "clear": lambda value: value.clear(),
    "pop": lambda value: value.pop("none", None),
    "popitem": lambda value: value.popitem(),
    "setdefault": lambda value: value.setdefault("new", 1),
    "update": lambda value: value.update(new=1),
}
CHANGES_OF_A_LIST: dict[str, Callable[[Any], object]] = {
    "item assignment": lambda value: operator.setitem(value, slice(None), [1]),
    "item deletion": lambda value: operator.delitem(value, slice(None)),
    "in-place addition": lambda value: operator.iadd(value, [1]),
    "in-place repetition": lambda value: operator.imul(value, 2),
    "append": lambda value: value.append(1),
    "clear": lambda value: value.clear(),
    "extend": lambda value: value.extend([1]),
    "insert": lambda value: value.insert(0, 1),
    "pop": lambda value: value.pop(),
    "remove": lambda value: value.remove(next(iter(value), None)),
    "reverse": lambda value: value.reverse(),
    "sort": lambda value: value.sort(key=repr),
}


def inside(value: Any) -> Iterator[Any]:
    """Every container in a value, the outermost too."""
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from inside(inner)


@given(bodies)
def test_every_container_in_a_frozen_value_refuses_every_change(value: Any):
    frozen = freeze(value)
    for container in inside(frozen):
        changes = CHANGES_OF_A_DICT if isinstance(container, dict) else CHANGES_OF_A_LIST
        for change in changes.values():
            with pytest.raises(TypeError, match=r"does not change: make a copy with ether\.thaw"):
                change(container)
        with pytest.raises(AttributeError):
            container.attribute = 1
    assert frozen == value


@given(bodies)
def test_changing_what_was_frozen_changes_nothing(value: Any):
    before = copy.deepcopy(value)
    frozen = freeze(value)

    for container in list(inside(value)):
        container.clear()

    assert frozen == before


@given(bodies)
def test_copies_and_pickles_of_a_frozen_value_are_equal_and_frozen(value: Any):
    frozen = freeze(value)
    for again in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert again == frozen
        assert type(again) is type(frozen)
        assert all(isinstance(container, (FrozenDict, FrozenList)) for container in inside(again))


@given(bodies)
def test_thawing_gives_a_plain_copy_that_is_the_callers_own(value: Any):
    frozen = freeze(value)

    thawed = thaw(frozen)
    assert thawed == value
    for container in list(inside(thawed)):
        assert type(container) in {dict, list}
        container.clear()

    assert frozen == value


@given(bodies)
def test_a_frozen_value_reads_as_the_plain_one(value: Any):
    frozen = freeze(value)

    assert frozen == value
    assert repr(frozen) == repr(value)


@given(bodies)
def test_equal_frozen_values_have_equal_hashes(value: Any):
    assert hash(freeze(value)) == hash(freeze(copy.deepcopy(value)))


@pytest.mark.parametrize(
    "mapping",
    [
        OrderedDict(a=[1]),
        defaultdict(list, a=[1]),
        MappingProxyType({"a": [1]}),
        FrozenDict({"a": [1]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_mapping_at_any_depth_becomes_a_frozen_dict(mapping: Any):
    frozen = freeze([mapping])

    assert type(frozen[0]) is FrozenDict
    assert type(frozen[0]["a"]) is FrozenList


def test_tuples_at_any_depth_become_frozen_lists():
    point = namedtuple("point", "x y")  # noqa: PYI024  the plain kind too

    frozen = freeze({"tuple": (1, [2]), "named": point(1, [2])})

    assert frozen == {"tuple": [1, [2]], "named": [1, [2]]}
    assert all(type(container) in {FrozenDict, FrozenList} for container in inside(frozen))


def test_sets_and_bytearrays_cannot_be_changed_either():
    frozen = freeze({"set": {1, (2, 3)}, "bytes": bytearray(b"ab")})

    assert frozen == {"set": frozenset({1, FrozenList([2, 3])}), "bytes": b"ab"}
    assert type(frozen["set"]) is frozenset
    assert type(frozen["bytes"]) is bytes


@given(st.dictionaries(st.text(max_size=3), st.lists(st.integers(), max_size=3), max_size=3))
def test_operators_that_make_a_new_value_leave_the_frozen_one(value: dict[str, list[int]]):
    frozen = freeze(value)

    assert frozen | {"new": 1} == {**value, "new": 1}
    assert frozen.copy() == value
    for inner in frozen.values():
        assert inner + [1] == [*inner, 1]  # noqa: RUF005  the operator is meant
    assert frozen == value


def test_json_knows_frozen_values():
    assert json.dumps(freeze({"a": [1, {"b": None}]})) == '{"a": [1, {"b": null}]}'


def test_what_is_nested_too_deeply_is_refused_and_does_not_exhaust_the_stack():
    value: Any = 1
    for level in range(MAX_DEPTH):
        value = [value] if level % 2 else {"k": value}

    assert thaw(freeze(value)) == value
    with pytest.raises(InvalidEnvelope, match="more than 255 maps and lists within each other"):
        freeze([value])
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidEnvelope):
        freeze(value)
