"""The manifest of an agent: its capabilities and their bounds (spec 2 §4 and §5, spec 3 registry)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import FailFast, Field, model_validator

from ether_broker.encoding.frozen import FrozenDict
from ether_broker.envelope.manifest.subscription import Subscription, subscriptions_to
from ether_broker.envelope.model import AgentName, CapabilityName, FrozenMap, Model, SchemaVersion
from ether_broker.envelope.names import prefixes
from ether_broker.envelope.version import SCHEMA_VERSION, is_semantic
from ether_broker.errors import InvalidManifest, UsageError

__all__ = ["ANY", "SCHEMAS", "Capability", "Depth", "Interface", "Manifest"]

MOST_CAPABILITIES: Final = 512
"""Capabilities that an agent may declare, and as many exclusions: reading them costs their product."""
MOST_SUBSCRIPTIONS: Final = 64
"""Subscriptions that an agent may declare."""
_MOST: Final = {
    "capabilities": MOST_CAPABILITIES, "exclusions": MOST_CAPABILITIES, "subscriptions": MOST_SUBSCRIPTIONS
}  # fmt: skip
_MOST_FIELDS: Final = 32
"""Of a manifest, or of one of its capabilities or subscriptions; a newer version may have more than this one."""
ANY: Final = "*"
"""The capability of a fallback agent: it takes what nobody else holds."""
SCHEMAS: Final = ("params_schema", "result_schema")
"""The fields of a capability that only who asks for its manifest reads."""
_Words = Annotated[tuple[str, ...], FailFast()]
"""Only the first invalid one is reported: a peer may send 65,536 of them, and pydantic takes 0.3 µs for each."""


@unique
class Depth(StrEnum):
    """The depth to which an agent works on a subject (spec 2 §5 `maxDepth`)."""

    QUICK = "quick"
    LEARNING = "learning"
    DEEP = "deep"


@unique
class Interface(StrEnum):
    """The patterns of delegation that an agent accepts (spec 2 §7)."""

    SINGLE = "single"
    """Made by plain code."""
    CHAINED = "chained"
    """Made in a handler, for another delegation."""
    DUAL_PHASE = "dual-phase"
    """Both: one begins as either, and whoever made it goes on with its own work when it has ended."""


class Capability(Model):
    """The declaration of one thing that an agent does reliably (spec 2 §4); a part of its manifest.

    Example:
        count = Capability(name="text.count", confidence=0.9, idempotent=True)
        assert Manifest(agent="counter", capabilities=(count,)).resolve("text") == count
    """

    name: CapabilityName
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    constraints: _Words = ()
    latency_weight: Annotated[float, Field(ge=0)] = 1.0
    """Relative cost in time; lighter holders are preferred among equally busy ones."""
    idempotent: bool = False
    """Whether running it twice does no harm; then it is redelivered when its node dies (G3)."""
    description: str = ""
    params_schema: FrozenMap = FrozenDict()
    """JSON Schema of the parameters; a delegation that does not fit is REJECTED_CONTEXT before any handler runs."""
    result_schema: FrozenMap = FrozenDict()


class Manifest(Model):
    """The entry of an agent in the registry: its capabilities, their bounds, and what it does not take.

    Example:
        manifest = Counter.manifest()
        assert manifest.agent == "counter"
        assert [capability.name for capability in manifest.capabilities] == ["text.count"]
    """

    refusal: ClassVar[type[UsageError]] = InvalidManifest

    agent: AgentName
    """The id, unique among living agents."""
    version: str = "0.1.0"
    """Semantic version of the agent."""
    role: str = ""
    description: str = ""
    capabilities: Annotated[tuple[Capability, ...], Field(max_length=MOST_CAPABILITIES)] = ()
    exclusions: Annotated[tuple[CapabilityName, ...], Field(max_length=MOST_CAPABILITIES)] = ()
    """Capabilities, or prefixes of such, that it never takes, whatever else would route them to it."""
    subscriptions: Annotated[tuple[Subscription, ...], Field(max_length=MOST_SUBSCRIPTIONS)] = ()
    """The events that it is given; of several that fit, the one that names most of the topic counts."""
    interface: Annotated[tuple[Interface, ...], FailFast()] = (Interface.SINGLE, Interface.CHAINED)
    artifacts_produced: _Words = ()
    max_depth: Depth = Depth.DEEP
    tools: _Words = ()
    max_concurrency: Annotated[int, Field(ge=1, strict=True)] = 1
    """Delegations that it works on at a time."""
    notes: str = ""
    schema_version: SchemaVersion = SCHEMA_VERSION

    @classmethod
    def parse_without_schemas(cls, document: Mapping[str, Any]) -> Self:
        """As `parse`, and the schemas of its capabilities are left out: read, they take twenty times the memory.

        Raises:
            InvalidManifest, IncompatibleVersion: as `parse`.
        """
        _check_fields(document)
        for name, most in _MOST.items():  # each that is none would be a problem of its own
            items = document.get(name)
            if not isinstance(items, list):
                continue
            if len(items) > most:
                raise InvalidManifest(f"A manifest has {len(items):,} {name}, and {most:,} is the most.")
            for item in items:
                _check_fields(item)
        capabilities = document.get("capabilities")
        if not isinstance(capabilities, list):
            return cls.parse(document)
        return cls.parse({**document, "capabilities": list(map(_without_schemas, capabilities))})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not is_semantic(self.version):
            raise ValueError(f"version {self.version!r} of {self.agent} is no semantic version, such as 1.2.0")
        names = [capability.name for capability in self.capabilities]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise ValueError(f"{self.agent} declares {', '.join(twice)} twice")
        topics = [subscription.topic for subscription in self.subscriptions]
        if twice := sorted(topic for topic, count in Counter(topics).items() if count > 1):
            raise ValueError(f"{self.agent} subscribes to {', '.join(twice)} twice")
        exclusions = set(self.exclusions)
        excluded = [name for name in names if not exclusions.isdisjoint(prefixes(name))]
        if excluded:
            raise ValueError(f"{self.agent} both declares and excludes {', '.join(excluded)}")
        return self

    @property
    def declared(self) -> int:
        """How many capabilities and subscriptions it has."""
        return len(self.capabilities) + len(self.subscriptions)

    def capability(self, name: str) -> Capability | None:
        """The declaration of exactly this name."""
        # No index: agents declare a handful, and a cached one would go stale in `model_copy(update=…)`.
        return next((item for item in self.capabilities if item.name == name), None)

    def resolve(self, name: str) -> Capability | None:
        """The declared capability that a name asks for, or None (G10).

        In this order: the name itself; spec 1's short form, the last word of just one capability
        (`explore_directory` for `scout.explore_directory`); a prefix, which asks for the best of what is below it;
        `*`. An exclusion is stronger than all of them.
        """
        if self.excludes(name):
            return None
        exact = self.capability(name)
        if exact is not None:
            return exact
        end, begin = f".{name}", f"{name}."
        suffix = [item for item in self.capabilities if item.name.endswith(end)]
        if len(suffix) == 1:
            return suffix[0]
        below = [item for item in self.capabilities if item.name.startswith(begin)]
        if below:
            return min(below, key=lambda item: (item.latency_weight, -item.confidence, item.name))
        return self.capability(ANY)

    def subscription(self, topic: str) -> Subscription | None:
        """The subscription by which it is given an event, or None."""
        if not self.subscriptions:
            return None
        wanted = subscriptions_to(topic)
        fitting = [item for item in self.subscriptions if item.topic in wanted]
        return min(fitting, key=lambda item: wanted.index(item.topic), default=None)

    def takes(self, kind: Interface) -> bool:
        """Whether a pattern of delegation is in its interface (spec 2 §5): `dual-phase`, or nothing, is all of them."""
        return kind in self.interface or Interface.DUAL_PHASE in self.interface or not self.interface

    def excludes(self, name: str) -> bool:
        """Whether an exclusion names it or a prefix of it."""
        return bool(self.exclusions) and not set(prefixes(name)).isdisjoint(self.exclusions)


def _without_schemas(capability: Any) -> Any:
    """What is no schema stays, so that its validation tells it."""
    if not isinstance(capability, dict):
        return capability
    return {
        key: value
        for key, value in capability.items()
        if key not in SCHEMAS or not isinstance(value, dict) or not all(type(name) is str for name in value)
    }


def _check_fields(document: object) -> None:
    if isinstance(document, Mapping) and len(document) > _MOST_FIELDS:  # as above
        raise InvalidManifest(f"A part of a manifest has {len(document):,} fields, and {_MOST_FIELDS} is the most.")
