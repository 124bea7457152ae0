"""Access lists: who may delegate what to whom, observe, administer, and register which agents. Sans-IO.

Patterns are fnmatch's: `*` is anything, `review-*` a beginning, `[ab]` one of. They match whole names, and case counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache, partial, reduce
from operator import or_
from typing import Any, ClassVar, Final, Self, TypeVar

from ether_broker.errors import InvalidSpec

__all__ = ["EVERYTHING", "Access", "DelegateRule", "Grant", "Patterns", "RegisterRule"]

Patterns = str | Iterable[str]
"""One pattern or several, of which one has to match."""
_ANY: Final = ("*",)
_NEVER: Final = r"(?!)"
_MOST_CACHED: Final = 10_000
_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class DelegateRule:
    """A rule of an access list that lets some agents delegate some capabilities to some agents.

    Raises:
        InvalidSpec: a pattern is none.
    """

    who: Patterns
    """Agents, or nodes: all agents of them."""
    what: Patterns = _ANY
    """Capabilities, as the specialist declares them."""
    to: Patterns = _ANY
    """Agents."""

    def __post_init__(self) -> None:
        """Make tuples of the patterns."""
        for name in ("who", "what", "to"):
            object.__setattr__(self, name, _patterns(getattr(self, name), f"delegate: {name}"))


@dataclass(frozen=True, slots=True)
class RegisterRule:
    """A rule of an access list that lets some nodes host some agents.

    Raises:
        InvalidSpec: a pattern is none.
    """

    node: Patterns
    """Nodes."""
    agents: Patterns
    """Names of agents."""

    def __post_init__(self) -> None:
        """Make tuples of the patterns."""
        for name in ("node", "agents"):
            object.__setattr__(self, name, _patterns(getattr(self, name), f"register: {name}"))


class _Cache(dict[_Key, _Found]):
    """A cache of what was found for each key; when it has 10,000 of them, it forgets all.

    Args:
        find: gets a key that is not there.
    """

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[_Key], _Found]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, key: _Key) -> _Found:
        if len(self) >= _MOST_CACHED:
            self.clear()
        found = self[key] = self._find(key)
        return found


class Grant:
    """The part of an access list that concerns one delegator: what it may delegate, and to whom.

    What it may not reach it is not told of either: no alternative, no "did you mean", no condition.
    """

    __slots__ = ("_decided", "_marks", "rules")

    def __init__(self, rules: Iterable[DelegateRule], targets: Mapping[tuple[str, ...], int] | None = None) -> None:
        self.rules: Final = tuple(rules)
        self._decided = _Cache(partial(_has, self.rules))
        self._marks = _Cache(partial(_marks, self.rules, targets or {}))

    def permits(self, capability: str, target: str) -> bool:
        """Whether it may delegate a capability, by its declared name, to an agent."""
        return self._decided[capability, target]

    def marks(self, capability: str) -> int:
        """To whom it may delegate a capability, by its declared name: agents with one of these bits in `Access.marks`."""
        return self._marks[capability]

    def knows_capability(self, name: str) -> bool:
        """Whether it may know of a capability: there is somebody to whom it might delegate it."""
        return self._decided[name, None]

    def knows_agent(self, name: str) -> bool:
        """Whether it may know of an agent: there is something that it might delegate to it."""
        return self._decided[None, name]


def _has(rules: Iterable[DelegateRule], question: tuple[str | None, str | None]) -> bool:
    """Whether a rule has both a capability and an agent, of which None is in every rule."""
    what, to = question
    return any((what is None or _match(rule.what, what)) and (to is None or _match(rule.to, to)) for rule in rules)


def _marks(rules: Iterable[DelegateRule], targets: Mapping[tuple[str, ...], int], capability: str) -> int:
    return reduce(or_, (targets.get(tuple(rule.to), 0) for rule in rules if _match(rule.what, capability)), 0)


class Access:
    """An access list: the rules of who may do what on the bus. What no rule allows is denied.

    A node may always host the agent of its own name, in which its plain code delegates. Names of agents are only as good
    as the rules for registering them, and names of nodes as the keys that they come with: without keys an access list
    keeps mistakes out, not attackers.

    Args:
        delegate: who may delegate what to whom.
        observe: agents or nodes that see every message, and may watch (`monitor`) anybody.
        read: who may ask the bus about itself (`ether.*`): agents, nodes, statistics, dead letters with their contents.
        change: who may change something there: discard a dead letter, which redriving one does too.
        register: which nodes may host which agents.
        owners: nodes that may do everything: the process that the broker is part of.

    Raises:
        InvalidSpec: a pattern is none.
    """

    def __init__(
        self,
        *,
        delegate: Iterable[DelegateRule] = (),
        observe: Patterns = (),
        read: Patterns = (),
        change: Patterns = (),
        register: Iterable[RegisterRule] = (),
        owners: Iterable[str] = (),
    ) -> None:
        self.is_open = False
        """Whether there is no access list, and everybody may do everything."""
        self._delegate = tuple(delegate)
        self._observe = _patterns(observe, "observe")
        self._read = _patterns(read, "administer: read")
        self._change = _patterns(change, "administer: change")
        self._register = tuple(register)
        self._owners = frozenset(owners)
        targets = dict.fromkeys(tuple(rule.to) for rule in self._delegate)
        self._targets = {to: 1 << number for number, to in enumerate(targets)}
        self._grants = _Cache(self._find)
        self._grants_of_rules = _Cache(self._grant_of)

    @classmethod
    def open(cls) -> Self:
        """No access list: everybody who is in may do everything."""
        made = cls()
        made.is_open = True
        return made

    def grant(self, node: str, source: str) -> Grant:
        """What an agent of a node may delegate; one object for all to whom the same rules apply."""
        return self._grants[node, source]

    def _find(self, delegator: tuple[str, str]) -> Grant:
        if self._everything(delegator[0]):
            return EVERYTHING
        return self._grants_of_rules[tuple(rule for rule in self._delegate if _match(rule.who, *delegator))]

    def _grant_of(self, rules: tuple[DelegateRule, ...]) -> Grant:
        return Grant(rules, self._targets)

    def marks(self, agent: str) -> int:
        """To which of the rules' sets of agents (`DelegateRule.to`) an agent belongs, a bit for each; 0 without rules."""
        return sum(bit for to, bit in self._targets.items() if _match(to, agent))

    def may_observe(self, node: str) -> bool:
        """Whether a node may see every message."""
        return self._everything(node) or _match(self._observe, node)

    def may_administer(self, node: str, source: str, *, change: bool = False) -> bool:
        """Whether an agent of a node may ask the bus about itself, or change something there; who may change may ask."""
        patterns = self._change if change else (*self._read, *self._change)
        return self._everything(node) or _match(patterns, node, source)

    def may_register(self, node: str, agent: str) -> bool:
        """Whether a node may host an agent."""
        if agent == node or self._everything(node):
            return True
        return any(_match(rule.node, node) and _match(rule.agents, agent) for rule in self._register)

    def extended(
        self, *, register: Iterable[RegisterRule] = (), owners: Iterable[str] = (), observe: Iterable[str] = ()
    ) -> Access:  # fmt: skip
        """The same with more rules; an open one stays open."""
        if self.is_open:
            return self
        return Access(
            delegate=self._delegate, observe=(*self._observe, *observe), read=self._read, change=self._change,
            register=(*self._register, *register), owners=(*self._owners, *owners),
        )  # fmt: skip

    def take_over(self, other: Access) -> None:
        """Take over from another list who may host agents and who may observe; what else is allowed stays as it is."""
        self._register, self._observe = other._register, other._observe

    def as_dict(self) -> dict[str, Any] | None:
        """What `of` takes, for another process; None for an open one."""
        if self.is_open:
            return None
        return {
            "delegate": [{"who": rule.who, "what": rule.what, "to": rule.to} for rule in self._delegate],
            "observe": self._observe,
            "read": self._read,
            "change": self._change,
            "register": [{"node": rule.node, "agents": rule.agents} for rule in self._register],
            "owners": sorted(self._owners),
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> Self:
        """Read what `as_dict` gave.

        Raises:
            InvalidSpec: a pattern is none.
        """
        if fields is None:
            return cls.open()
        rules = [DelegateRule(**rule) for rule in fields.get("delegate", ())]
        register = [RegisterRule(**rule) for rule in fields.get("register", ())]
        return cls(**{**fields, "delegate": rules, "register": register})

    def _everything(self, node: str) -> bool:
        return self.is_open or node in self._owners

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Access) and self.as_dict() == other.as_dict()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


def _match(patterns: Patterns, *names: str) -> bool:
    return any(map(_matcher(tuple(patterns)), names))


@lru_cache(maxsize=65_536)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """What says whether a name matches one of the patterns; none matches no name."""
    return re.compile("|".join(map(translate, patterns)) or _NEVER).match


def _patterns(given: object, where: str) -> tuple[str, ...]:
    patterns = (given,) if isinstance(given, str) else given
    if not isinstance(patterns, Iterable) or isinstance(patterns, Mapping):
        raise InvalidSpec(f"Access list, {where} is {given!r}: give a pattern, or a list of them.")
    found = tuple(patterns)
    for pattern in found:
        if not isinstance(pattern, str) or not pattern:
            raise InvalidSpec(f"Access list, {where} has {pattern!r}: a pattern is a text such as 'review-*'.")
    return found


EVERYTHING: Final = Grant([DelegateRule("*")])
"""Of those for whom no list counts."""
