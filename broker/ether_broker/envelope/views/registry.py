"""The views of a manifest: spec 2's manifest (§4.1) and registry entry (§5), and spec 3's `AgentInfo`.

    CapabilityManifest        RegistryEntry             AgentInfo              Manifest
    agent                     id                        agent_id               agent
    version                   version                   version                version
                              role                      name                   role
                                                        description            description
    capabilities              capabilities              capabilities (names)   capabilities
    exclusions                                                                 exclusions
                              interface                                        interface
                              artifactsProduced                                artifacts_produced
                              maxDepth                                         max_depth
                                                        tools                  tools
    notes                     notes                                            notes

A descriptor of a capability has the four fields of §4.1 and, where they are not at their default, ours. An
`AgentInfo` has no executor, which is no data: it stays where the agent runs. The rest is under `ether`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, PlainSerializer

from ether_broker.encoding.frozen import FrozenDict
from ether_broker.envelope.manifest.manifest import Capability, Depth, Interface, Manifest
from ether_broker.envelope.model import AgentName, CapabilityName, FrozenMap
from ether_broker.envelope.views.view import View, plain_values
from ether_broker.errors import InvalidManifest, UsageError

__all__ = ["AgentInfo", "CapabilityManifest", "RegistryEntry"]

_DESCRIPTOR: Final = ("name", "confidence", "constraints", "latency_weight")
_Descriptors = tuple[Capability, ...]


class _ManifestView(View):
    """A manifest in other words; what a document leaves out comes back as its default."""

    vocabulary: ClassVar[str] = "registry"
    refusal: ClassVar[type[UsageError]] = InvalidManifest

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Self:
        """Say a manifest in these words; `to_manifest` gives it back."""
        return cls._of(manifest)

    def to_manifest(self) -> Manifest:
        """The manifest that this is.

        Raises:
            InvalidManifest: it contradicts itself, or what is under `ether` does not fit.
        """
        return self._to(Manifest)

    @classmethod
    def _document(cls, envelope: Manifest) -> dict[str, Any]:
        said = envelope.model_dump(include=set(cls.words.values()))
        said["capabilities"] = [_descriptor(item) for item in envelope.capabilities]
        document = {cls.model_fields[ours].alias or ours: said[theirs] for ours, theirs in cls.words.items()}
        return {key: value for key, value in plain_values(document).items() if value or key != "notes"}


class CapabilityManifest(_ManifestView):
    """An agent's manifest in the words of spec 2 §4.1.

    Example:
        view = CapabilityManifest.from_manifest(Counter.manifest())
        assert [capability.name for capability in view.capabilities] == ["text.count"]
        assert view.to_manifest() == Counter.manifest()
    """

    agent: AgentName
    version: str
    capabilities: _Descriptors
    exclusions: tuple[CapabilityName, ...] = ()
    notes: str = ""
    ether: FrozenMap = FrozenDict()

    words: ClassVar[Mapping[str, str]] = {
        name: name for name in ("agent", "version", "capabilities", "exclusions", "notes")
    }  # fmt: skip


class RegistryEntry(_ManifestView):
    """An agent's entry in the registry in the words of spec 2 §5.

    Example:
        entry = RegistryEntry.from_manifest(Counter.manifest())
        assert entry.document()["id"] == "counter"
        assert entry.to_manifest() == Counter.manifest()
    """

    id: AgentName
    version: str
    role: str
    capabilities: _Descriptors
    interface: tuple[Annotated[Interface, PlainSerializer(lambda kind: kind.value)], ...]
    artifacts_produced: Annotated[tuple[str, ...], Field(alias="artifactsProduced")]
    max_depth: Annotated[Depth, Field(alias="maxDepth"), PlainSerializer(lambda depth: depth.value)]
    notes: str = ""
    ether: FrozenMap = FrozenDict()

    words: ClassVar[Mapping[str, str]] = {
        "id": "agent", "version": "version", "role": "role", "capabilities": "capabilities", "interface": "interface",
        "artifacts_produced": "artifacts_produced", "max_depth": "max_depth", "notes": "notes",
    }  # fmt: skip


class AgentInfo(_ManifestView):
    """An agent's registration as it stands in spec 3, "Registering an Agent", without the executor.

    Example:
        info = AgentInfo.from_manifest(Counter.manifest())
        assert info.agent_id == "counter"
        assert info.capabilities == ("text.count",)
        assert info.to_manifest() == Counter.manifest()
    """

    agent_id: AgentName
    name: str
    description: str
    capabilities: tuple[CapabilityName, ...]
    tools: tuple[str, ...] = ()
    version: str
    ether: FrozenMap = FrozenDict()

    words: ClassVar[Mapping[str, str]] = {
        "agent_id": "agent", "name": "role", "description": "description", "capabilities": "capabilities", "tools": "tools",
        "version": "version",
    }  # fmt: skip

    def _fields(self) -> dict[str, Any]:
        return {**super()._fields(), "capabilities": [{"name": name} for name in self.capabilities]}

    @classmethod
    def _document(cls, envelope: Manifest) -> dict[str, Any]:
        return {**super()._document(envelope), "capabilities": [item.name for item in envelope.capabilities]}


def _descriptor(capability: Capability) -> dict[str, Any]:
    every = capability.model_dump()
    changed = capability.model_dump(exclude_defaults=True)
    document = {name: every[name] for name in _DESCRIPTOR} | changed
    return {**document, "constraints": list(capability.constraints)}
