"""The checks of an agent's class: that no declared method is replaced without a word, and no name is a typo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ether_broker.errors import InvalidManifest
from ether_broker.name_hint import is_typo

__all__ = ["EVENT_MARK", "check_is_new", "check_overridden", "check_own", "is_marked", "misspelt_settings"]

EVENT_MARK: Final = "__ether_event__"
"""The attribute of a method that handles events."""


_HOOKS: Final = ("on_start", "on_stop", "on_failure", "on_receive")
"""The methods of an agent that are called without a declaration."""
_SHORTEST: Final = 7
"""Letters from which on a setting's name has no near ones that are words of their own, as `tool` and `nodes`."""


def is_marked(method: object) -> bool:
    """Whether a decorator has declared a method of an agent: a capability, an event handler, or a schedule of one."""
    return any(key.startswith("__ether_") for key in getattr(method, "__dict__", ()))


def check_is_new(method: Any, namespace: Mapping[str, Any]) -> None:
    """Check that a declared method takes the name of no other one in the body of its class.

    Args:
        method: as a decorator gets it.
        namespace: of where the decorator stands, with what has been defined so far.

    Raises:
        InvalidManifest: it is a static or a class method; or it does: Python would keep only this one, and the first be lost
            without a word.
    """
    if isinstance(method, staticmethod | classmethod):
        raise _unbound(method, method.__qualname__)
    before = namespace.get(getattr(method, "__name__", ""))
    is_body = "__qualname__" in namespace
    if is_body and before is not method and is_marked(before):
        raise InvalidManifest(
            f"{method.__qualname__} is declared twice, and Python keeps only the last: give each method its own name."
        )


def _unbound(method: staticmethod[Any, Any] | classmethod[Any, Any, Any], where: str) -> InvalidManifest:
    kind = type(method).__name__
    return InvalidManifest(
        f"{where} is declared and a {kind}, which has no agent: take @{kind} away, as in def …(self)."
    )


def check_own(cls: type) -> None:
    """Check that the methods of a class are methods of an agent, and that none is a hook but for a slip of the pen.

    Raises:
        InvalidManifest: a declared one is a static or a class method; or the bus would never call one that was surely meant
            to be called by it, such as `on_strat`.
    """
    for name, method in vars(cls).items():
        where = f"{cls.__qualname__}.{name}"
        if isinstance(method, staticmethod | classmethod) and (is_marked(method) or is_marked(method.__func__)):
            raise _unbound(method, where)
        if name in _HOOKS or not callable(method) or is_marked(method):
            continue
        if meant := next((hook for hook in _HOOKS if is_typo(name, hook)), None):
            raise InvalidManifest(
                f"{where} is none of the methods that the bus calls. Did you mean {meant!r}? Name one of your own otherwise."
            )


def misspelt_settings(cls: type, settings: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find the attributes of a class that nothing reads and that are surely meant for a setting of an agent.

    Not those that add to its name, as `version2` and `interfaces`, nor of a class that has the setting too.

    Args:
        cls: looked at without its bases.
        settings: the names of all settings.

    Returns:
        Each attribute's name, with that of the setting.
    """
    unset = [setting for setting in settings if len(setting) >= _SHORTEST and setting not in vars(cls)]
    for name, value in vars(cls).items():
        if name not in settings and not callable(value) and not hasattr(value, "__get__"):
            for setting in unset:
                if is_typo(name, setting) and not name.startswith(setting):
                    yield name, setting


def check_overridden(cls: type) -> None:
    """Check that what overrides a declared method of a base is declared too, or no method.

    Raises:
        InvalidManifest: one is not: its capability, subscription or schedule would be gone without a word.
    """
    found: dict[str, tuple[type, object]] = {}
    for base in cls.__mro__:
        for name, method in vars(base).items():
            by, override = found.setdefault(name, (base, method))
            if is_marked(method) and not (override is None or is_marked(override)):
                raise InvalidManifest(
                    f"{by.__qualname__}.{name} overrides what {base.__qualname__} declares by a decorator: repeat the "
                    f"decorator above it, or set {name} = None in {cls.__qualname__} if it is to have none."
                )
            if method is None or is_marked(method):
                found[name] = base, method
