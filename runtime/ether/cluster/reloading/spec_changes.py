"""The changes from one specification of a cluster to another: which there are, and which a reload may make.

What is the same is compared whole, field by field, whatever fields a specification has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from ether.cluster.cluster_spec import AgentSpec, ClusterSpec, NodeSpec, ObserverSpec
from ether_broker.envelope.payload import pack
from ether_broker.errors import InvalidSpec

__all__ = ["changed_fields", "check_reload", "must_be_another", "process_changes"]

_KEYS: Final = {
    "keys": "security.keys", "insecure": "security.insecure", "access": "access", "limits": "limits", "timing": "timing",
    "journal": "cluster.journal or cluster.durability",
}  # fmt: skip
"""{field: where it stands in a cluster file}, unless it is a key of `cluster`."""
_SHOWN: Final = 60


def check_reload(old: ClusterSpec, new: ClusterSpec) -> None:
    """Check that a reload may turn one specification into another.

    Raises:
        InvalidSpec: something else than the nodes has changed; the message names each.
        Unserialisable: an argument of an agent or observer cannot travel to its node's process.
    """
    if changed := changed_fields(old, new, "nodes"):
        told = (
            one
            for name in changed
            for one in _told(_KEYS.get(name, f"cluster.{name}"), getattr(old, name), getattr(new, name))
        )
        raise InvalidSpec(
            f"A reload cannot change {', '.join(told)}: it changes the nodes, and the rest belongs to the broker or to the "
            "cluster as a whole. Nothing was changed; end the cluster and start it again for this, or undo it in the file."
        )
    for node in new.nodes:
        specs: tuple[AgentSpec | ObserverSpec, ...] = (*node.agents, *node.observers)
        for one in specs:
            pack(one.as_dict(), where=f"{one.start} of {node.name}")


def changed_fields(old: Any, new: Any, *but: str) -> list[str]:
    """The fields in which two values of one dataclass differ, other than some."""
    names = (one.name for one in fields(new) if one.name not in but)
    return [name for name in names if not _is_same(getattr(old, name), getattr(new, name))]


def process_changes(old: NodeSpec, new: NodeSpec) -> list[str]:
    """The fields in which two specifications of a node differ and which its process has from its start."""
    return changed_fields(old, new, "agents")


def must_be_another(old: AgentSpec, new: AgentSpec) -> bool:
    """Whether an agent, or an instance, must be replaced: anything but how many there may be has changed."""
    return (old.scale is None) is not (new.scale is None) or bool(changed_fields(old, new, "count", "name", "scale"))


def _is_same(old: Any, new: Any) -> bool:
    """Whether two values are equal and of the same types: to Python, 1 is True."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_is_same(value, new[key]) for key, value in old.items())
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return type(old) is type(new) and bool(old == new)


def _told(key: str, old: Any, new: Any) -> list[str]:
    """A key that has changed with its values, or those below it that have."""
    if is_dataclass(old) and type(old) is type(new):
        return [
            one for name in changed_fields(old, new)
            for one in _told(f"{key}.{name}", getattr(old, name), getattr(new, name))
        ]  # fmt: skip
    if repr(new).startswith("<"):  # of no use to anybody
        return [key]
    return [f"{key} ({_shown(old)}, now {_shown(new)})"]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
