"""Fields of a saved state that a model has not any more: told with those that they are in, however deep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    computed_field,
    create_model,
    field_validator,
    model_serializer,
)

from ether_actors.agent.state_keeper import StateKeeper


class Item(BaseModel):
    name: str = ""


class AnyItem(Item):
    model_config = ConfigDict(extra="allow")


class Aliased(BaseModel):
    name: str = Field("", alias="title")


class Counted(Item):
    @computed_field
    def length(self) -> int:
        return len(self.name)


class Priced(BaseModel):
    price: int


class Sorted(BaseModel):
    items: dict[str, Item | Priced] = {}

    @field_validator("items")
    @classmethod
    def in_order(cls, items: dict[str, Any]) -> dict[str, Any]:
        return dict(sorted(items.items()))


class Sparse(BaseModel):
    name: str | None = None
    price: int | None = None

    @model_serializer(mode="wrap")
    def without_none(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class ById(RootModel[dict[UUID, int]]):
    pass


class Nested(RootModel[ById]):
    pass


ONE: Final = "00000000-0000-0000-0000-000000000001"


class Pruned(BaseModel):
    known: dict[str, int] = {}

    @field_validator("known")
    @classmethod
    def few(cls, known: dict[str, int]) -> dict[str, int]:
        return {name: count for name, count in known.items() if count}


@dataclass
class Place:
    row: int


class Items(RootModel[list[Item]]):
    pass


@pytest.mark.parametrize(
    ("kind", "found", "lost"),
    [
        (Item, {"name": "a", "price": 1}, "part.price"),
        (Item, {"name": "a"}, None),
        (AnyItem, {"name": "a", "price": 1}, None),
        (Aliased, {"name": "a"}, None),
        (Counted, {"name": "a", "length": 1}, None),
        (Counted, {"name": "a", "length": 1, "size": 1}, "part.size"),
        (Pruned, {"known": {"a": 0, "b": 1}}, None),
        (Sorted, {"items": {"z": {"price": 1}, "a": {"name": "b"}}}, None),
        (Sorted, {"items": {"z": {"name": "a"}, "a": {"name": "b"}}, "more": 1}, "part.more"),
        (Sparse, {"name": "a", "price": None}, None),
        (Sparse, {"name": "a", "size": 1}, "part.size"),
        (Nested, {ONE: 1}, None),
        (dict[UUID, Item], {ONE: {"price": 1}}, f"part.{ONE}.price"),
        (Place, {"row": 1, "column": 2}, "part.column"),
        (list[Item], [{"name": "a"}, {"price": 1}], "part.1.price"),
        (tuple[int, Item], [1, {"price": 1}], "part.1.price"),
        (Items, [{"name": "a"}, {"price": 1}], "part.1.price"),
        (dict[str, Item], {"x": {"price": 1}}, "part.x.price"),
        (dict[int, Item], {1: {"name": "a"}}, None),
        (Item | None, None, None),
        (Item | int, {"price": 1}, "part.price"),
        (list[dict[str, list[Item]]], [{"x": [{"price": 1}]}], "part.0.x.0.price"),
    ],
)
def test_a_field_that_would_be_dropped_is_told(kind: Any, found: Any, lost: str | None) -> None:
    model = create_model("State", part=(kind, ...))
    state = model.model_validate({"part": found}, by_name=True, by_alias=False)
    if lost is None:
        StateKeeper._check_fields(state, {"part": found})
    else:
        with pytest.raises(ValueError, match=f"the model has no field '{lost}'"):
            StateKeeper._check_fields(state, {"part": found})


def test_a_field_of_the_state_itself_is_told() -> None:
    with pytest.raises(ValueError, match="the model has no field 'price'"):
        StateKeeper._check_fields(Item(), {"name": "a", "price": 1})
