"""An index of agents by the capability names under which they can be asked. Sans-IO.

    a name that is asked for ──► itself, or the capabilities that it is short for or that are below it
    a capability ──► Holders, of one class: alike in the patterns of delegation that they take and to every access rule
    Holders ──► Replicas, of one manifest ──► agents

So an agent whose replicas are there already is entered at once, whatever it declares, and its load counts in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Final, cast

from ether_actors.supervisor.registry.holders import MOST_PASSED, Found, Holders
from ether_actors.supervisor.registry.registration import Condition, Registration
from ether_actors.supervisor.registry.replicas_by_load import Replicas
from ether_broker.envelope.manifest.manifest import ANY, Interface, Manifest
from ether_broker.security.access_list import EVERYTHING, Grant
from ether_broker.sorted_keys import SortedKeys

__all__ = ["RESOLVED_SHIFT", "CapabilityIndex"]

_ANY: Final = ANY.encode()
_SINGLE: Final = Interface.SINGLE  # a member of an Enum costs a look-up each time that it is named
_ENOUGH: Final = 64
"""For an ambiguous name, how many capabilities with active holders are compared, in rotation."""
_MOST_LOOKED_AT: Final = 1_024
"""Capabilities that are looked at where fewer have somebody; if nobody has been found then, there is nobody."""
_MOST_ASLEEP: Final = 16_384
"""The most inactive capabilities that one lookup of a prefix skips."""
_MOST_LOOKS: Final = 2_048
"""What one look below a name takes at most, in such looks."""
RESOLVED_SHIFT: Final = 2
"""Capabilities of an agent that are gone through for a name in the time of one look."""
_Class = tuple[Interface | None, int]
_Alike = tuple[int, int, Interface | None, int]


class CapabilityIndex:
    """An index of agents by the names under which they can be asked."""

    def __init__(self) -> None:
        self._replicas: dict[_Alike, Replicas] = {}
        self._holders: dict[bytes, dict[_Class, Holders]] = {}
        """{capability: {class: who declares it}}, in the order in which they came."""
        self._askable: dict[bytes, dict[bytes, None]] = {}
        """{a name: the other capabilities that can be asked for under it}, those next whose turn it is."""
        self._asleep: dict[bytes, dict[bytes, None]] = {}
        """{a name: those of them that were found to have nobody who takes work, until somebody does}."""
        self.declared: SortedKeys[bytes] = SortedKeys()
        """The capabilities."""
        self.looked: int = 0
        """Capabilities and manifests that were looked at in vain, or to compare; whoever counts them sets it back."""

    def add(self, agent: Registration, marks: int) -> Replicas:
        """Enter an agent that is not entered; returns those of which it is one now.

        Args:
            agent: the agent, with its manifest.
            marks: what the access list tells of it; see `Access.marks`.
        """
        manifest = agent.manifest
        kind = _kind_of(manifest)
        alike = id(manifest.capabilities), id(manifest.exclusions), kind, marks
        replicas = self._replicas.get(alike)
        if replicas is not None:
            if not replicas:
                self._activate(replicas)
            replicas.enter(agent)
            return replicas
        replicas = self._replicas[alike] = Replicas(manifest, kind, marks)
        replicas.enter(agent)
        for capability in manifest.capabilities:
            name = capability.name.encode()
            classes = self._holders.get(name)
            if classes is None:
                classes = self._holders[name] = {}
                self.declared.add(name)
                for short in _short_for(capability.name):
                    self._askable.setdefault(short, {})[name] = None
            holders = classes.get((kind, marks))
            if holders is None:
                holders = classes[kind, marks] = Holders()
            holders.enter(replicas, capability)
        self._activate(replicas)
        return replicas

    def activate(self, agent: Registration) -> None:
        """Note that an agent that is entered takes work again."""
        replicas = cast("Replicas", agent.replicas)
        if not replicas:
            self._activate(replicas)
        replicas.activate(agent)

    def _activate(self, replicas: Replicas) -> None:
        """Let what replicas declare be asked for again under every name."""
        if self._asleep:
            for capability in replicas.manifest.capabilities:
                name = capability.name.encode()
                for short in _short_for(capability.name):
                    if name in self._asleep.get(short, ()):
                        _take(self._asleep, short, name)
                        self._askable.setdefault(short, {})[name] = None

    def remove(self, agent: Registration) -> None:
        """Take an agent out that is entered."""
        replicas = cast("Replicas", agent.replicas)
        replicas.remove(agent)
        if not replicas and not replicas.inactive:
            self._drop(replicas)

    def _drop(self, replicas: Replicas) -> None:
        manifest, kind, marks = replicas.manifest, replicas.kind, replicas.marks
        del self._replicas[id(manifest.capabilities), id(manifest.exclusions), kind, marks]
        for capability in manifest.capabilities:
            name = capability.name.encode()
            classes = self._holders[name]
            holders = classes[kind, marks]
            holders.discard(replicas)
            if holders:
                continue
            del classes[kind, marks]
            if not classes:
                del self._holders[name]
                self.declared.remove(name)
                for short in _short_for(capability.name):
                    _take(self._askable if name in self._askable.get(short, ()) else self._asleep, short, name)

    # -- the choice ----------------------------------------------------------------------------------------------

    def best(
        self, name: bytes, kind: Interface, grant: Grant, without: Container[Registration] = (), *, may_move: bool = True
    ) -> Registration | None:  # fmt: skip
        """The best who takes it: the capability itself, else one that the name stands for, else anything.

        Args:
            name: what is asked for.
            kind: the pattern of the delegation.
            grant: what its delegator may reach.
            without: who is passed over.
            may_move: whether it may be one that moves.
        """
        classes = self._holders.get(name)
        found = None if classes is None else self._best(classes, name, kind, grant, without)
        if not may_move:
            found = _staying(found)
        if found is None and name in self._askable:
            found = self._best_below(name, kind, grant, without)
            if not may_move:
                found = _staying(found)
        if found is None and name != _ANY and (classes := self._holders.get(_ANY)) is not None:
            found = self._best(classes, name, kind, grant, without, partial(self._is_for, name, grant, _ANY))
            if not may_move:
                found = _staying(found)
        return None if found is None else found[4]

    def holder(self, name: bytes) -> Registration | None:
        """Whom `best` finds, for a delegation without a parent or an access list, among those that declare the name itself.

        None: nobody of them takes it, and `best` looks further.
        """
        classes = self._holders.get(name)
        if classes is None:
            return None
        if len(classes) == 1:
            [holders] = classes.values()
            replicas = holders.only
            if (
                replicas is not None
                and replicas.only is not None
                and (replicas.kind is None or replicas.kind is _SINGLE)
            ):
                return replicas.only
        found = self._best(classes, name, _SINGLE, EVERYTHING, ())
        return None if found is None else found[4]

    def _best_below(
        self, name: bytes, kind: Interface, grant: Grant, without: Container[Registration]
    ) -> Found | None:  # fmt: skip
        capabilities = self._askable[name]
        best: Found | None = None
        looked: list[bytes] = []
        asleep: list[bytes] = []
        taking, until = 0, self.looked + _MOST_LOOKS
        for capability in capabilities:
            if (
                taking == _ENOUGH
                or len(looked) == _MOST_LOOKED_AT
                or self.looked > until
                or len(asleep) == _MOST_ASLEEP
            ):
                break
            classes = self._holders[capability]
            if self._is_asleep(classes):
                asleep.append(capability)
                continue
            looked.append(capability)
            found = self._best(
                classes, capability, kind, grant, without, partial(self._is_for, name, grant, capability)
            )
            self.looked += 1
            if found is not None:
                taking += 1
                if best is None or found < best:
                    best = found
        if len(looked) + len(asleep) < len(capabilities):
            for capability in looked:
                capabilities[capability] = capabilities.pop(capability)  # behind the others
        if asleep:
            self._set_aside(name, asleep)
        return best

    def _is_asleep(self, classes: dict[_Class, Holders]) -> bool:
        for holders in classes.values():
            is_asleep = holders.is_asleep()
            self.looked += holders.passed
            holders.passed = 0
            if not is_asleep:
                return False
        return True

    def _set_aside(self, name: bytes, asleep: list[bytes]) -> None:
        capabilities, aside = self._askable[name], self._asleep.setdefault(name, {})
        for capability in asleep:
            del capabilities[capability]
            aside[capability] = None
        if not capabilities:
            del self._askable[name]
        self.looked += len(asleep)

    def _best(  # noqa: PLR0917  what is asked, and by whom
        self, classes: dict[_Class, Holders], capability: bytes, kind: Interface, grant: Grant,
        without: Container[Registration], accepts: Callable[[Replicas], bool] | None = None,
    ) -> Found | None:  # fmt: skip
        best: Found | None = None
        for (takes, marks), holders in classes.items():
            if (takes is None or takes is kind) and (grant is EVERYTHING or _permits(grant, capability, marks)):
                found = holders.best(without, accepts)
                if holders.passed:
                    self.looked += holders.passed
                    holders.passed = 0
                if found is not None and (best is None or found < best):
                    best = found
        if len(classes) > 1:
            self.looked += len(classes)
        return best

    def everybody(self, name: bytes, grant: Grant) -> Iterator[Registration]:
        """All whom a choice could find, for any pattern of delegation; fallback agents last."""
        seen: set[Replicas] = set()
        until = self.looked + _MOST_LOOKS
        below = chain(self._askable.get(name, ()), self._asleep.get(name, ()))
        for capability in dict.fromkeys((name, *islice(below, _MOST_LOOKED_AT), _ANY)):
            for holders in self._holders.get(capability, {}).values():
                for replicas in islice(holders, MOST_PASSED):
                    self.looked += 1
                    if replicas not in seen and self._is_for(name, grant, capability, replicas):
                        seen.add(replicas)
                        yield from replicas
                        yield from replicas.inactive
                    if self.looked > until:
                        return

    def _is_for(self, name: bytes, grant: Grant, capability: bytes, replicas: Replicas) -> bool:
        """Whether a capability is what replicas make of a name, and they may be reached."""
        if name not in replicas.resolved:
            self.looked += len(replicas.manifest.capabilities) >> RESOLVED_SHIFT
        if replicas.resolve(name) != capability:
            return False
        return _permits(grant, name if capability == _ANY else capability, replicas.marks)


def _staying(found: Found | None) -> Found | None:
    """The best of some, unless it moves: then all do, as who moves comes behind all others."""
    return None if found is None or found[4].condition is Condition.MOVING else found


def _take(names: dict[bytes, dict[bytes, None]], name: bytes, capability: bytes) -> None:
    capabilities = names[name]
    del capabilities[capability]
    if not capabilities:
        del names[name]


def _permits(grant: Grant, capability: bytes, marks: int) -> bool:
    return grant is EVERYTHING or bool(grant.marks(capability.decode(errors="replace")) & marks)


def _kind_of(manifest: Manifest) -> Interface | None:
    """The one pattern of delegation that agents take; None for those that take both, as most do."""
    if not manifest.takes(Interface.SINGLE):
        return Interface.CHAINED
    return None if manifest.takes(Interface.CHAINED) else Interface.SINGLE


@lru_cache(maxsize=4096)
def _short_for(name: str) -> Collection[bytes]:
    """The other names under which `Manifest.resolve` finds a capability: what it ends with, and what it is below."""
    words = name.split(".")
    ends = (words[first:] for first in range(1, len(words)))
    begins = (words[:last] for last in range(1, len(words)))
    return dict.fromkeys(".".join(short).encode() for short in (*ends, *begins))
