"""The grammar of the names that travel; docs/protocol.md has the same, and a test compares them.

What is held to it at the broker's edge can stand in a log, a journal or a table as it is: it has no blank, no control sign, and
nothing that a terminal, Markdown or a shell would take for more than a name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ether_broker.errors import InvalidEnvelope

__all__ = [
    "BUS_PREFIX",
    "CAPABILITY_PATTERN",
    "EVENT_PREFIX",
    "GRAMMAR",
    "MAX_NAME",
    "MAX_RESOURCE",
    "MAX_TOPIC",
    "NAME_PATTERN",
    "PREFIX_PATTERN",
    "PUBLISH",
    "SUBSCRIPTION_PATTERN",
    "SUPERVISOR",
    "TOPIC_PATTERN",
    "check_names",
    "is_capability",
    "is_name",
    "is_prefix",
    "is_resource",
    "is_topic",
    "prefixes",
]

NAME_PATTERN: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:@/-]*$"
"""Of an agent, a node, a cluster."""
CAPABILITY_PATTERN: Final = r"^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,15}|\*)$"
"""Of up to 16 words: whoever declares it can be asked for it by what it begins with, and by what it ends with."""
TOPIC_PATTERN: Final = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,13}$"
"""Of the topic of an event that an agent publishes: its name as a capability has two words more (`EVENT_PREFIX`)."""
SUBSCRIPTION_PATTERN: Final = r"^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,12}(\.\*|\.[A-Za-z0-9_-]+)?|\*)$"
"""Of what an agent subscribes to: a topic; a topic and `.*`, for all below it; or `*`, for all."""
GRAMMAR: Final = {
    NAME_PATTERN: "up to 200 letters, digits and _ . : @ / -, of which the first is a letter, a digit or _",
    CAPABILITY_PATTERN: "up to 200 letters, digits and _ -, in up to 16 words with dots between them",
    TOPIC_PATTERN: "up to 180 letters, digits and _ -, in up to 14 words with dots between them",
    SUBSCRIPTION_PATTERN: "a topic, of up to 180 letters, digits and _ - in up to 14 words; one that ends in .*; or *",
}
"""The same in words."""
PREFIX_PATTERN: Final = r"^([A-Za-z0-9_.-]*|\*)$"
"""Of what an observer asks for: the begin of a capability, and so also nothing at all."""
SUPERVISOR: Final = "ether"
"""The agent name of the supervisor; its capabilities begin with `ether.`."""
BUS_PREFIX: Final = b"ether."
"""What the capabilities of the bus itself begin with."""
EVENT_PREFIX: Final = b"ether.event."
"""What stands before its topic in the capability by which an event is delivered; only the bus delegates it."""
PUBLISH: Final = "ether.publish"
"""The capability by which an event is published."""
MAX_NAME: Final = 200
MAX_TOPIC: Final = 180
"""Characters of an event's topic."""
MAX_RESOURCE: Final = 4_096
"""Bytes of a resource's name: Linux's longest path."""

_KNOWN: Final = 8_192
"""Headers whose names are remembered to be good, as each envelope of the same two about the same has them."""
_matches_name: Final = re.compile(NAME_PATTERN.encode()).fullmatch
_matches_capability: Final = re.compile(CAPABILITY_PATTERN.encode()).fullmatch
_matches_topic: Final = re.compile(TOPIC_PATTERN).fullmatch
_matches_prefix: Final = re.compile(PREFIX_PATTERN).fullmatch


def is_name(name: bytes) -> bool:
    """Whether an agent or a node can have the name."""
    return len(name) <= MAX_NAME and _matches_name(name) is not None


def is_capability(name: bytes) -> bool:
    """Whether a capability can have the name, or be asked for by it."""
    return len(name) <= MAX_NAME and _matches_capability(name) is not None


def is_topic(topic: str) -> bool:
    """Whether an event can have the topic."""
    return len(topic) <= MAX_TOPIC and _matches_topic(topic) is not None


def is_prefix(prefix: str) -> bool:
    """Whether an observer can ask for what begins with it."""
    return len(prefix) <= MAX_NAME and _matches_prefix(prefix) is not None


def is_resource(name: str) -> bool:
    """Whether a lease can be on it: any text without signs that are not printable, of 1 to 4,096 bytes."""
    return name.isprintable() and 0 < len(name.encode()) <= MAX_RESOURCE


@lru_cache(maxsize=_KNOWN)
def check_names(source: bytes, target: bytes, capability: bytes) -> None:
    """Check the names of a header, each of which may be empty.

    Raises:
        InvalidEnvelope: one of them is none that anybody can have.
    """
    if (not source or is_name(source)) and (not target or is_name(target)):
        if not capability or is_capability(capability):
            return
        wrong, what, grammar = capability, "capability", GRAMMAR[CAPABILITY_PATTERN]
    else:
        wrong = target if not source or is_name(source) else source
        what, grammar = "name of an agent", GRAMMAR[NAME_PATTERN]
    raise InvalidEnvelope(f"{wrong.decode(errors='replace')!r} is no {what}: {grammar}.")


def prefixes(name: str) -> list[str]:
    """A name and the prefixes of it that end at a dot."""
    words = name.split(".")
    return [".".join(words[:count]) for count in range(1, len(words) + 1)]
