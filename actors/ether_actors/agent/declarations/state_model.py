"""The check of what a class declares of its state: a pydantic model that can be saved and read again."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from typing import Any, ClassVar, Final, Protocol

from pydantic import BaseModel

from ether_broker.errors import InvalidManifest

__all__ = ["state_model"]

_NAME: Final = "state"


class ClassWithState(Protocol):
    """The interface of an agent's class, as far as this check has to know it."""

    max_concurrency: ClassVar[int]
    state_version: ClassVar[int]


def state_model(cls: type[ClassWithState], namespace: dict[str, Any]) -> type[BaseModel] | None:
    """The model of a class's state: what its attribute `state` is annotated with, if that is a pydantic model.

    Raises:
        InvalidManifest: the attribute is a model without an annotation, or has a value beside it, the annotation names what
            cannot be found or has a model inside, the model has a field without a default, it or one inside has something that
            is not saved, the version is no whole number, or the agent handles more than one delegation at a time.
    """
    owner = next((base for base in cls.__mro__ if _NAME in inspect.get_annotations(base)), None)
    if owner is None:
        _check_unannotated(cls)
        return None
    where = f"{cls.__qualname__}.state"
    model = _annotation(owner, where, namespace)
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        if _has_model(model):
            raise InvalidManifest(f"{where}: annotate it with the pydantic model itself, as in state: Totals.")
        return None
    if any(_NAME in vars(base) for base in cls.__mro__):
        raise InvalidManifest(
            f"{where}: give it no value, as in state: {model.__name__}, for each agent begins with one of its own: defaults "
            f"belong into {model.__name__}, or set them in __init__."
        )
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    if needed:
        raise InvalidManifest(
            f"{where}: {needed[0]} of {model.__name__} needs a default, which the first agent begins with."
        )
    unsaved = _unsaved(model, set())
    if unsaved is not None:
        msg = f"{where}: {unsaved} is not saved, nor undone: make it a field, or an attribute of the agent."
        raise InvalidManifest(msg)
    if cls.max_concurrency != 1:
        msg = f"{cls.__qualname__} has a state and max_concurrency = {cls.max_concurrency}: with a state it is 1."
        raise InvalidManifest(msg)
    if type(cls.state_version) is not int or cls.state_version < 0:
        raise InvalidManifest(f"{cls.__qualname__}.state_version is {cls.state_version!r}: a whole number, 0 or more.")
    return model


def _check_unannotated(cls: type) -> None:
    """Refuse a class whose `state` is a model and no annotation says so: it was surely meant, and one object is all agents'."""
    value = inspect.getattr_static(cls, _NAME, None)
    model = value if isinstance(value, type) else type(value)
    if issubclass(model, BaseModel):
        msg = f"annotate it with the model, and give it no value, as in state: {model.__name__}; now it is not saved."
        raise InvalidManifest(f"{cls.__qualname__}.{_NAME}: {msg}")


def _annotation(owner: type, where: str, namespace: dict[str, Any]) -> Any:
    """What `state` is annotated with; the other annotations of its class are not looked at."""

    def holder() -> None: ...

    holder.__annotations__ = {_NAME: inspect.get_annotations(owner)[_NAME]}
    try:
        return typing.get_type_hints(holder, vars(sys.modules[owner.__module__]), namespace)[_NAME]
    except NameError as error:
        raise InvalidManifest(
            f"{where}: the annotation names {error.name!r}, which cannot be found: import it."
        ) from None


def _has_model(hint: Any) -> bool:
    """Whether somebody who wrote this may have meant a state."""
    if isinstance(hint, type) and (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint)):
        return True
    return isinstance(hint, typing.TypeVar) or any(map(_has_model, typing.get_args(hint)))


def _unsaved(hint: Any, seen: set[Any]) -> str | None:
    """The first private attribute or excluded field of the models that an annotation names."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and hint not in seen:
        seen.add(hint)
        try:
            parts = list(typing.get_type_hints(hint).values())
        except NameError:  # a class of a function, which pydantic looks up otherwise
            parts = []
        return next(filter(None, (_unsaved(part, seen) for part in parts)), None)
    if not isinstance(hint, type) or not issubclass(hint, BaseModel):
        return next(filter(None, (_unsaved(part, seen) for part in typing.get_args(hint))), None)
    if hint in seen:
        return None
    seen.add(hint)
    for name in hint.__private_attributes__:
        return f"{hint.__name__}.{name}"
    for name, field in hint.model_fields.items():
        if field.exclude:
            return f"{hint.__name__}.{name}"
        if found := _unsaved(field.annotation, seen):
            return found
    return None
