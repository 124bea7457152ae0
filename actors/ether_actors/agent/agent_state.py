"""The state of an agent that outlives it: declared by its class, changed by its handlers, saved with their outcomes."""

from __future__ import annotations

import inspect
import typing
from typing import Any, ClassVar, Final, Protocol

import ormsgpack
from pydantic import BaseModel, ValidationError

from ether_broker.envelope.model import problem_words
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidManifest, InvalidState
from ether_broker.wire.saved_state import BroughtState

__all__ = ["MOST_STATE", "StateKeeper", "state_model"]

MOST_STATE: Final = 64 << 10
"""Bytes of a packed state."""
_NAME: Final = "state"


class AgentWithState(Protocol):
    """The interface of an agent, as far as its state has to know it."""

    agent_name: str
    max_concurrency: ClassVar[int]
    state_version: ClassVar[int]

    @classmethod
    def migrate_state(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        """Turn a state of an older version into one of this."""
        ...


def state_model(cls: type[AgentWithState], namespace: dict[str, Any]) -> type[BaseModel] | None:
    """The model of a class's state: what its attribute `state` is annotated with, if that is a pydantic model.

    Raises:
        InvalidManifest: the annotation names what cannot be found, the model has a field without a default, or the agent
            handles more than one delegation at a time.
    """
    owner = next((base for base in cls.__mro__ if _NAME in inspect.get_annotations(base)), None)
    if owner is None:
        return None
    try:
        model = typing.get_type_hints(owner, localns=namespace).get(_NAME)
    except NameError as error:
        msg = f"{cls.__qualname__}.state: the annotation names {error.name!r}, which cannot be found: import it in the module."
        raise InvalidManifest(msg) from None
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        return None
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    if needed:
        msg = f"{cls.__qualname__}.state: {needed[0]} of {model.__name__} needs a default, which the first agent begins with."
        raise InvalidManifest(msg)
    if cls.max_concurrency != 1:
        msg = f"{cls.__qualname__} has a state and max_concurrency = {cls.max_concurrency}: with a state it is 1."
        raise InvalidManifest(msg)
    return model


class StateKeeper:
    """The state of one agent, as it is and as it was saved last.

    Args:
        agent: whose class declares one; its `state` is set.
        model: of it.
        saved: what was saved last; None if nothing was.

    Raises:
        InvalidState: what was saved is of a newer version of the class, or does not fit.
    """

    __slots__ = ("_agent", "_model", "_number", "_packed", "_version")

    def __init__(self, agent: AgentWithState, model: type[BaseModel], saved: BroughtState | None) -> None:
        self._agent = agent
        self._model = model
        self._version = agent.state_version
        self._number = 0 if saved is None else saved.number
        self._set(model() if saved is None else self._read(saved))
        self._packed = self._pack()
        if saved is not None and saved.version != self._version:
            self._packed = b""  # saved anew with the next outcome

    def _read(self, saved: BroughtState) -> BaseModel:
        cls, name = type(self._agent), self._agent.agent_name
        if saved.version > self._version:
            msg = (
                f"The state of {name} was saved by version {saved.version} of its class, and this is {self._version} "
                f"({cls.__qualname__}.state_version): start the newer one, or forget the state (bus.forget_state)."
            )
            raise InvalidState(msg)
        try:
            found = ormsgpack.unpackb(saved.data, option=ormsgpack.OPT_NON_STR_KEYS)
            if saved.version < self._version:
                found = cls.migrate_state(found, saved.version)
            return self._model.model_validate(found)
        except (ValidationError, ormsgpack.MsgpackDecodeError) as error:
            first = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else None
            where = "" if first is None else ".".join(map(str, first["loc"]))
            what = f"{error}" if first is None else f"{where}: {problem_words(first)}"
            msg = (
                f"The state of {name} that version {saved.version} of its class saved does not fit {self._model.__name__}: "
                f"{what}. Raise {cls.__qualname__}.state_version and write migrate_state, or forget the state "
                "(bus.forget_state)."
            )
            raise InvalidState(msg) from None

    def changed(self) -> BroughtState | None:
        """The state to be saved, if it is another than the last; from then on it counts as saved.

        Raises:
            InvalidState: it is no state any more, cannot be packed, or is too large.
        """
        packed = self._pack()
        if packed == self._packed:
            return None
        self._packed = packed
        self._number += 1
        return BroughtState(self._number, self._version, packed)

    def newer(self, saved: BroughtState | None) -> BroughtState | None:
        """What the bus has, or what this keeper has given to be saved, if that is newer: it may be on its way."""
        own = BroughtState(self._number, self._version, self._packed)
        return own if own.data and own.number > (0 if saved is None else saved.number) else saved

    def roll_back(self) -> None:
        """Make the state again what it was when it was saved last: what changed it has failed."""
        packed = self._packed
        if packed:
            self._set(self._model.model_validate(ormsgpack.unpackb(packed, option=ormsgpack.OPT_NON_STR_KEYS)))

    def _set(self, state: BaseModel) -> None:
        self._agent.state = state  # type: ignore[attr-defined]  # the class that has a keeper declares it

    def _pack(self) -> bytes:
        state = getattr(self._agent, _NAME, None)
        if not isinstance(state, self._model):
            raise InvalidState(
                f"{self._agent.agent_name}: state has to stay a {self._model.__name__}, and is {state!r:.80}."
            )
        try:
            packed = pack(state, where="the state", bounded=True)
            self._model.model_validate(ormsgpack.unpackb(packed, option=ormsgpack.OPT_NON_STR_KEYS))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            msg = f"The state of {self._agent.agent_name} could not be read again: {where}: {problem_words(first)}."
            raise InvalidState(msg) from None
        except InvalidState:
            raise
        except Exception as error:  # noqa: BLE001  whatever a field of it raises
            raise InvalidState(f"The state of {self._agent.agent_name} cannot be saved: {error}") from None
        if len(packed) > MOST_STATE:
            msg = (
                f"The state of {self._agent.agent_name} has {len(packed):,} bytes, and {MOST_STATE:,} is the most: keep large "
                "data in files or artifacts."
            )
            raise InvalidState(msg)
        return packed
