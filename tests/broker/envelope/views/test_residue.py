from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.model import Model
from ether_broker.envelope.views.agent_io import AgentInput
from ether_broker.envelope.views.lossless import DROP, difference, patch, pieces, same
from ether_broker.envelope.views.view import View
from ether_broker.errors import InvalidEnvelope
from tests.broker.strategies import json_maps

maps = json_maps.map(lambda value: {key: inner for key, inner in value.items() if key != DROP})
"""Documents: their fields have names, and none is called `drop`. Below, any key may stand."""


@given(maps, maps)
def test_a_difference_put_back_gives_the_whole(plain: dict[str, Any], full: dict[str, Any]):
    assert same(patch(plain, difference(plain, full)), full)


@given(maps, maps)
def test_the_pieces_of_a_difference_give_the_whole_too(plain: dict[str, Any], full: dict[str, Any]):
    result = plain
    for piece in pieces(difference(plain, full)):
        result = patch(result, piece)
    assert same(result, full)


@given(maps)
def test_there_is_no_difference_between_a_document_and_itself(document: dict[str, Any]):
    assert difference(document, copy.deepcopy(document)) == {}


@given(maps, maps)
def test_patching_changes_neither_argument(plain: dict[str, Any], full: dict[str, Any]):
    residue = difference(plain, full)
    before = copy.deepcopy((plain, residue))

    patch(plain, residue)

    assert (plain, residue) == before


def test_the_example_of_the_module():
    plain = {"name": "scout", "budget": {"max_cost": 0.5}, "depth": 2}
    full = {"name": "scout", "budget": {"max_cost": 0.5, "currency": "EUR"}}

    assert difference(plain, full) == {"budget": {"currency": "EUR"}, "drop": [["depth"]]}


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), (None, False), ("1", 1), ([1], [1, 1]), ({"a": 1}, {"b": 1}), ({}, [])],
)
def test_values_that_json_tells_apart_are_not_the_same(one: Any, other: Any):
    assert not same(one, other)
    assert difference({"x": one}, {"x": other}) != {}


def test_nan_is_the_same_as_nan():
    assert same([float("nan")], [float("nan")])


@pytest.mark.parametrize("path", [["missing"], ["missing", "deeper"], ["number", "deeper"]])
def test_dropping_what_is_not_there_changes_nothing(path: list[str]):
    assert patch({"number": 1}, {DROP: [path]}) == {"number": 1}


@pytest.mark.parametrize("dropped", ["params", ["params"], [[]], {}, 1])
def test_a_list_of_paths_that_is_none_is_refused(dropped: Any):
    with pytest.raises(InvalidEnvelope, match="expected a list of paths"):
        patch({}, {DROP: dropped})


def test_pieces_of_a_residue_from_elsewhere_are_the_residue():
    assert list(pieces({DROP: "nonsense", "empty": {}})) == [{DROP: "nonsense"}, {"empty": {}}]


def test_a_kept_spelling_of_many_pieces_is_not_tried_piece_by_piece(monkeypatch: pytest.MonkeyPatch):
    compared = 0
    meaning = AgentInput._meaning.__func__

    def counted(cls: type[View], kind: type[Model], document: dict[str, Any]) -> dict[str, Any]:
        nonlocal compared
        compared += 1
        return meaning(cls, kind, document)

    monkeypatch.setattr(View, "_meaning", classmethod(counted))
    kept = {"agent": 7, "drop": [[f"q{number}"] for number in range(3_000)]}
    delegation = Delegation(
        request_id=to_text(new_id()), capability="a.b", params={f"q{number}": 1 for number in range(3_000)},
        extensions={"agent_io": kept},
    )  # fmt: skip

    assert AgentInput.from_delegation(delegation).to_delegation() == delegation
    assert compared <= 3


@pytest.mark.parametrize("home", [b"x", 5, ["a"], "text"])
def test_an_extension_whose_home_is_no_map_is_passed_over(home: object):
    delegation = Delegation(
        request_id=to_text(new_id()), capability="a.b", params=[1], extensions={"agent_io": {"context": home}}
    )

    assert AgentInput.from_delegation(delegation).to_delegation() == delegation
