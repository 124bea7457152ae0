"""The state of an agent that outlives it: changed by its handlers, and saved with their outcomes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol
from weakref import WeakSet

from pydantic import BaseModel, ValidationError

from ether_broker.encoding.bounded import MOST_STATE
from ether_broker.envelope.model import problem_words
from ether_broker.envelope.payload import pack, unpack
from ether_broker.errors import InvalidState
from ether_broker.text import error_with_class, printable
from ether_broker.unread_log import warn_unread
from ether_broker.wire.saved_state import BroughtState, SavedState

__all__ = ["StateKeeper", "warn_of_unsaved"]

_logger: Final = logging.getLogger("ether.agent")
_warned: Final = WeakSet[type]()
"""Classes whose unsaved state was warned of."""

_TYPES: Final = (
    "a state has None, bool, int of 64 bits, float, text, bytes, datetimes, UUIDs and enums, and lists, tuples, dicts and "
    "models of such"
)


class AgentWithState(Protocol):
    """The interface of an agent, as far as its state has to know it."""

    agent_name: str
    state_version: ClassVar[int]

    @classmethod
    def migrate_state(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        """Turn a state of an older version into one of this."""
        ...


class StateKeeper:
    """The state of one agent, as it is and as it was saved last.

    Handlers call `begin`, `proposed`, and then `commit` or `roll_back`, one at a time; `reset` and `forget_saved` come from any
    thread, and count from the next handler on.

    Args:
        agent: whose class declares one; its `state` is set.
        model: of it.
        saved: what the bus has of it; None if it has nothing.
        make_id: makes ids of 16 bytes.

    Raises:
        InvalidState: what was saved is of a newer version of the class, or does not fit; or what it begins with cannot be.
    """

    __slots__ = (
        "_broker", "_first", "_incarnation", "_is_saved", "_known_to", "_make_id", "_model", "_number", "_origin",
        "_packed", "_proposed_to", "_reset", "_version", "agent",
    )  # fmt: skip

    def __init__(
        self, agent: AgentWithState, model: type[BaseModel], saved: SavedState | None, make_id: Callable[[], bytes]
    ) -> None:  # fmt: skip
        self.agent: Any = agent
        self._model = model
        self._make_id = make_id
        self._incarnation = make_id()
        self._version = agent.state_version
        self._broker = self._proposed_to = self._known_to = 0
        """Brokers are counted: that of the node, the one that was proposed to last, and the one that has `_number`."""
        self._is_saved = True
        """Whether that one has the state in this version."""
        self._reset: tuple[SavedState | None] | None = None
        """What to go on with before the next handler, if that is something else."""
        if not isinstance(getattr(agent, "state", None), model):
            self._set(model())
        self._first = self._pack()
        """What it begins with where nothing is saved."""
        self._check_read_back(self._first)
        self._number, self._origin, self._packed = 0, b"", self._first
        if saved is not None:
            self._begin_with(saved)

    def _begin_with(self, saved: SavedState) -> None:
        self._set(self._read(saved))
        packed = self._pack()
        self._number, self._origin, self._packed = saved.number, saved.incarnation, packed
        self._known_to, self._is_saved = self._broker, saved.version == self._version

    def reset(self, saved: SavedState | None, refused: bytes) -> None:
        """Go on with what the bus has, from the next handler on: what this incarnation gave it was refused."""
        if refused == self._incarnation:
            self._reset = (saved,)

    def forget_saved(self) -> None:
        """Have the state saved with the next outcome, whether or not it changes: its broker was lost, and there is another."""
        self._broker += 1
        self._reset = None

    def begin(self) -> None:
        """Make ready for a handler.

        Raises:
            InvalidState: as the class; the state is what it was, and is tried again at the next call.
        """
        reset = self._reset
        if reset is None:
            return
        self._incarnation = self._make_id()  # first: what else was refused of the one before is no matter any more
        (saved,) = reset
        if saved is not None:
            self._begin_with(saved)
        else:
            self._set(self._model.model_validate(unpack(self._first), by_name=True, by_alias=False))
            self._number, self._origin, self._packed = 0, b"", self._first
            self._known_to, self._is_saved = self._broker, True
        if self._reset is reset:
            self._reset = None

    def proposed(self) -> BroughtState | None:
        """The state to be saved with an outcome; None if the bus has it.

        Raises:
            InvalidState: it is no state any more, cannot be packed, or is too large.
        """
        packed = self._pack()
        self._proposed_to = broker = self._broker
        is_known, is_new = self._known_to == broker, packed != self._packed
        if not is_new and ((is_known and self._is_saved) or (not self._number and packed == self._first)):
            return None
        if is_new:
            self._check_read_back(packed)
        base, origin = (self._number, self._origin) if is_known else (0, b"")
        return BroughtState(base, origin, self._incarnation, self._version, packed)

    def commit(self, proposed: BroughtState | None) -> None:
        """Note that what was proposed is on its way."""
        if proposed is not None:
            self._number, self._origin, self._packed = proposed.base + 1, self._incarnation, proposed.data
            self._known_to, self._is_saved = self._proposed_to, True

    def roll_back(self) -> None:
        """Make the state again what it was when it was saved last: what changed it has failed."""
        self._set(self._model.model_validate(unpack(self._packed), by_name=True, by_alias=False))

    def _read(self, saved: SavedState) -> BaseModel:
        cls, name = type(self.agent), self.agent.agent_name
        if saved.version > self._version:
            msg = (
                f"The state of {name} was saved by version {saved.version} of its class, and this is {self._version} "
                f"({cls.__qualname__}.state_version): start the newer one, or {_forget(name)}."
            )
            raise InvalidState(msg)
        try:
            found = unpack(saved.data)
            if saved.version < self._version:
                found = cls.migrate_state(found, saved.version)
            state = self._model.model_validate(found, by_name=True, by_alias=False)
            self._check_fields(state, found)
            return state
        except Exception as error:
            is_older = saved.version < self._version
            fix = f"Correct {cls.__qualname__}.migrate_state" if is_older else (
                f"Raise {cls.__qualname__}.state_version and write migrate_state"
            )  # fmt: skip
            msg = (
                f"The state of {name} that version {saved.version} of its class saved does not fit {self._model.__name__}: "
                f"{_words(error)}. {fix}, or {_forget(name)}."
            )
            raise InvalidState(msg) from error

    @staticmethod
    def _check_fields(state: BaseModel, found: Any) -> None:
        """Check that no field would be dropped, which the next change would lose for good.

        Raises:
            ValueError: the model has not all of the fields.
        """
        dumped = unpack(pack(state.model_dump(by_alias=False, warnings="none"), where="state", bounded=True))
        if dumped != found and (dropped := _dropped(state, dumped, found)) is not None:
            raise ValueError(f"the model has no field {dropped!r}")

    def _set(self, state: BaseModel) -> None:
        self.agent.state = state

    def _pack(self) -> bytes:
        state, name = getattr(self.agent, "state", None), self.agent.agent_name
        if not isinstance(state, self._model):
            raise InvalidState(f"{name}: state has to stay a {self._model.__name__}, and is {state!r:.80}.")
        try:
            packed = pack(state.model_dump(by_alias=False, warnings="none"), where="state", bounded=True)
        except Exception as error:  # noqa: BLE001  whatever a field of it raises
            raise InvalidState(f"The state of {name} cannot be saved: {_words(error)} ({_TYPES}).") from None
        if len(packed) > MOST_STATE:
            msg = (
                f"The state of {name} has {len(packed):,} bytes, and {MOST_STATE:,} is the most: keep large data in files or "
                "artifacts."
            )
            raise InvalidState(msg)
        return packed

    def _check_read_back(self, packed: bytes) -> None:
        """Check that who reads the state gets the same.

        Raises:
            InvalidState: it does not.
        """
        name = self.agent.agent_name
        try:
            again = self._model.model_validate(unpack(packed), by_name=True, by_alias=False)
            packed_again = pack(again.model_dump(by_alias=False, warnings="none"), where="state", bounded=True)
        except Exception as error:  # noqa: BLE001  whatever a validator raises
            raise InvalidState(f"The state of {name} could not be read again: {_words(error)}.") from None
        state = self.agent.state
        if again != state and packed_again == packed and _has_nan(state.model_dump(warnings="none")):
            return
        if again != state:
            lost = [
                field
                for field in self._model.model_fields
                if getattr(again, field, None) != getattr(state, field, None)
            ]
            what = ", ".join(lost) or "something that is no field"
            raise InvalidState(f"The state of {name} would not be the same when it is read again: {what} ({_TYPES}).")


def _forget(agent: str) -> str:
    command = f"`ether states forget {agent}`, with --journal PATH where no broker runs"
    return f"forget the state: bus.forget_state({agent!r}), or {command}"


def _words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return printable(f"{'.'.join(map(str, first['loc']))}: {problem_words(first)}")
    return printable(error_with_class(error).removeprefix("Unserialisable: ").rstrip("."))


def _has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_nan, value))
    return isinstance(value, float) and value != value  # noqa: PLR0124  what NaN is


def _dropped(value: Any, dumped: Any, found: Any, where: str = "") -> str | None:
    """The first field of a saved state that the model made of it has not, after those that it is in; None if there is none.

    What a plain dict has not any more is no field: a validator may leave some out.
    """
    while getattr(value, "__pydantic_root_model__", False):
        value = value.root
    below: Iterable[tuple[Any, Any, Any, Any]] = ()
    if isinstance(found, dict) and isinstance(dumped, dict):
        if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
            known = (
                type(value).model_fields
                if isinstance(value, BaseModel)
                else [one.name for one in dataclasses.fields(value)]
            )
            if missing := found.keys() - dumped.keys() - set(known):
                return f"{where}{min(map(str, missing))}"
            values = {name: getattr(value, name, None) for name in known}
        elif isinstance(value, Mapping) and len(value) == len(dumped):
            values = dict(zip(dumped, value.values(), strict=True))  # by the keys that were saved
        else:
            values = {}
        below = ((values.get(name), dumped[name], found[name], name) for name in found if name in dumped)
    elif isinstance(found, list) and isinstance(value, list | tuple) and len(value) == len(dumped) == len(found):
        below = zip(value, dumped, found, range(len(found)), strict=True)
    for one, one_dumped, one_found, at in below:
        if (name := _dropped(one, one_dumped, one_found, f"{where}{at}.")) is not None:
            return name
    return None


def warn_of_unsaved(agent: object) -> None:
    """Warn, once a class, of an agent that has a `state` which looks like one that is saved, and is not annotated at all."""
    kind, state = type(agent), vars(agent).get("state")
    if not isinstance(state, BaseModel) or kind in _warned:
        return
    if not any("state" in vars(one).get("__annotations__", ()) for one in kind.__mro__):
        _warned.add(kind)
        cls, model = kind.__qualname__, type(state).__qualname__
        msg = (
            f"{cls} sets self.state to a {model}, which its class does not declare, so it is not saved: write `state: {model}` "
            f"in the body of {cls}, or give what is not to be saved another name."
        )
        _logger.warning(msg)
        warn_unread(_logger, msg)
