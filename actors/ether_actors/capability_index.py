"""Agents by the names under which they can be asked for something. Sans-IO.

    a name that is asked for ──► itself, or the capabilities that it is short for or that are below it
    a capability ──► Holders, of one class: alike in the patterns of delegation that they take and to every access rule
    Holders ──► Replicas, of one manifest and one node ──► agents

So an agent whose replicas are there already is entered at once, whatever it declares, and its load counts in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from functools import lru_cache, partial
from itertools import count, islice
from typing import Final, cast

from ether_actors.holders import MOST_PASSED, Found, Holders
from ether_actors.registration import Registration
from ether_actors.replicas import Replicas
from ether_broker.manifest import ANY, Interface, Manifest
from ether_broker.router import Session
from ether_broker.security.access import EVERYTHING, Grant
from ether_broker.sorted_keys import SortedKeys

__all__ = ["RESOLVED_SHIFT", "CapabilityIndex"]

_ANY: Final = ANY.encode()
_OTHER: Final = {Interface.SINGLE: Interface.CHAINED, Interface.CHAINED: Interface.SINGLE}
_ENOUGH: Final = 64
"""Capabilities with somebody who takes it of which the best is taken, where a name stands for more; their turn goes round."""
_MOST: Final = 1_024
"""Capabilities that are looked at where fewer have somebody; if nobody has been found then, there is nobody."""
RESOLVED_SHIFT: Final = 2
"""Capabilities of an agent that are gone through for a name in the time of one look."""
_Class = tuple[Interface | None, int]
_Alike = tuple[int, int, Interface | None, int, int]
_numbers: Final = count(1)


class CapabilityIndex:
    """Finds agents; which are entered, and so can be found, is the registry's to say."""

    def __init__(self) -> None:
        self._replicas: dict[Session, dict[_Alike, Replicas]] = {}
        """{session of their node: {what they have in common: the replicas}}."""
        self._holders: dict[bytes, dict[_Class, Holders]] = {}
        """{capability: {class: who declares it}}, in the order in which they came."""
        self._askable: dict[bytes, dict[bytes, None]] = {}
        """{a name: the other capabilities that can be asked for under it}, those next whose turn it is."""
        self.declared: SortedKeys[bytes] = SortedKeys()
        """The capabilities."""
        self.looked = 0
        """Capabilities and manifests that choices looked at in vain, or to compare; who causes it pays for it."""

    def add(self, agent: Registration, marks: int) -> None:
        """Enter an agent that is not in any index.

        Args:
            agent: the agent, with its manifest.
            marks: what the access list tells of it; see `Access.marks`.
        """
        manifest = agent.manifest
        kind = _kind_of(manifest)
        alike = id(manifest.capabilities), id(manifest.exclusions), kind, marks, 0
        replicas = self._replicas.get(agent.session, {}).get(alike)
        if replicas is not None:
            replicas.add(agent)
            return
        replicas = Replicas(manifest, kind, marks)
        replicas.add(agent)
        self._enter(replicas, agent.session, alike)

    def _enter(self, replicas: Replicas, session: Session, alike: _Alike) -> None:
        replicas.place = session, alike
        self._replicas.setdefault(session, {})[alike] = replicas
        manifest, kind, marks = replicas.manifest, replicas.kind, replicas.marks
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

    def remove(self, agent: Registration) -> None:
        """Take an agent out that is entered here."""
        replicas = cast("Replicas", agent.replicas)
        if len(replicas) == 1:
            self._drop(replicas)
        replicas.discard(agent)

    def move(self, session: Session, other: CapabilityIndex) -> None:
        """Move all agents of a node to an index of which nobody is chosen, in a time that grows with their manifests only."""
        for replicas in list(self._replicas.get(session, {}).values()):
            self._drop(replicas)
            kind, marks = replicas.kind, replicas.marks
            other._enter(replicas, session, (0, 0, kind, marks, next(_numbers)))  # no other joins them there

    def _drop(self, replicas: Replicas) -> None:
        manifest, kind, marks = replicas.manifest, replicas.kind, replicas.marks
        session, alike = replicas.place
        of_session = self._replicas[session]
        del of_session[alike]
        if not of_session:
            del self._replicas[session]
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
                    others = self._askable[short]
                    del others[name]
                    if not others:
                        del self._askable[short]

    # -- the choice ----------------------------------------------------------------------------------------------

    def best(
        self, name: bytes, kind: Interface, grant: Grant, without: Container[Registration] = ()
    ) -> Registration | None:  # fmt: skip
        """The best who takes it: the capability itself, else one that the name stands for, else anything.

        Args:
            name: what is asked for.
            kind: the pattern of the delegation.
            grant: what its delegator may reach.
            without: who is passed over.
        """
        classes = self._holders.get(name)
        found = None if classes is None else _best(classes, name, kind, grant, without)
        if found is None and name in self._askable:
            found = self._best_below(name, kind, grant, without)
        if found is None and name != _ANY and (classes := self._holders.get(_ANY)) is not None:
            found = _best(classes, name, kind, grant, without, partial(self._asks_for, name, _ANY))
            self.looked += sum(holders.passed for holders in classes.values())
        return None if found is None else found[4]

    def _best_below(
        self, name: bytes, kind: Interface, grant: Grant, without: Container[Registration]
    ) -> Found | None:  # fmt: skip
        capabilities = self._askable[name]
        best: Found | None = None
        looked = taking = 0
        for capability in capabilities:
            if taking == _ENOUGH or looked == _MOST:
                break
            looked += 1
            classes = self._holders[capability]
            found = _best(classes, capability, kind, grant, without, partial(self._asks_for, name, capability))
            self.looked += len(classes) + sum(holders.passed for holders in classes.values())
            if found is not None:
                taking += 1
                if best is None or found < best:
                    best = found
        if looked < len(capabilities):
            for capability in list(islice(capabilities, looked)):
                capabilities[capability] = capabilities.pop(capability)  # behind the others
        return best

    def everybody(self, name: bytes, grant: Grant) -> Iterator[Registration]:
        """All whom a choice could find, for any pattern of delegation; fallback agents last."""
        for capability in dict.fromkeys((name, *islice(self._askable.get(name, ()), _MOST), _ANY)):
            for (_, marks), holders in self._holders.get(capability, {}).items():
                if _permits(grant, name if capability == _ANY else capability, marks):
                    for replicas in islice(holders, MOST_PASSED):
                        if self._asks_for(name, capability, replicas):
                            yield from replicas

    def _asks_for(self, name: bytes, capability: bytes, replicas: Replicas) -> bool:
        """Whether replicas that declare a capability are asked for it under this name."""
        if name not in replicas.resolved:
            self.looked += len(replicas.manifest.capabilities) >> RESOLVED_SHIFT
        return replicas.resolve(name) == capability


def _best(  # noqa: PLR0917  what is asked, and by whom
    classes: dict[_Class, Holders], capability: bytes, kind: Interface, grant: Grant, without: Container[Registration],
    accepts: Callable[[Replicas], bool] | None = None,
) -> Found | None:  # fmt: skip
    best: Found | None = None
    for (takes, marks), holders in classes.items():
        if (takes is None or takes is kind) and (grant is EVERYTHING or _permits(grant, capability, marks)):
            found = holders.best(without, accepts)
            if found is not None and (best is None or found < best):
                best = found
    return best


def _permits(grant: Grant, capability: bytes, marks: int) -> bool:
    return grant is EVERYTHING or bool(grant.marks(capability.decode(errors="replace")) & marks)


def _kind_of(manifest: Manifest) -> Interface | None:
    """The one pattern of delegation that agents take; None for those that take both, as most do."""
    return next((kind for kind in (Interface.SINGLE, Interface.CHAINED) if not manifest.takes(_OTHER[kind])), None)


@lru_cache(maxsize=4096)
def _short_for(name: str) -> Collection[bytes]:
    """The other names under which `Manifest.resolve` finds a capability: what it ends with, and what it is below."""
    words = name.split(".")
    ends = (words[first:] for first in range(1, len(words)))
    begins = (words[:last] for last in range(1, len(words)))
    return dict.fromkeys(".".join(short).encode() for short in (*ends, *begins))
