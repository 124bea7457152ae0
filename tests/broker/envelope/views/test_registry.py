from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from ether_broker.envelope.manifest.manifest import Capability, Depth, Interface, Manifest
from ether_broker.envelope.views.registry import AgentInfo, CapabilityManifest, RegistryEntry
from ether_broker.envelope.views.view import View
from ether_broker.errors import InvalidManifest
from tests.broker.envelope.views import spec3_examples, spec_examples
from tests.broker.envelope.views.laws import document_survives, envelope_survives, envelope_survives_as_json
from tests.broker.strategies import manifests

VIEWS = (CapabilityManifest, RegistryEntry, AgentInfo)
EXAMPLES = [
    *((CapabilityManifest, document) for document in spec_examples.MANIFESTS),
    *((RegistryEntry, document) for document in spec_examples.REGISTRY_ENTRIES),
    *((AgentInfo, document) for document in spec3_examples.AGENT_INFOS),
]


@pytest.mark.parametrize(("kind", "document"), EXAMPLES)
def test_examples_survive_word_for_word(kind: type[View], document: dict[str, Any]):
    document_survives(kind, document)


@pytest.mark.parametrize("kind", VIEWS)
@given(manifest=manifests())
def test_any_manifest_survives(kind: type[View], manifest: Manifest):
    envelope_survives(kind, manifest)
    envelope_survives_as_json(kind, manifest)


def test_the_example_of_section_4_is_a_manifest():
    manifest = CapabilityManifest.parse(json.loads(spec_examples.CAPABILITY_MANIFEST)).to_manifest()

    assert manifest.agent == "research-agent"
    assert manifest.version == "1.2.0"
    assert manifest.capability("research.context.deepen") == Capability(
        name="research.context.deepen",
        confidence=0.92,
        constraints=("Needs multi-source saturation",),
        latency_weight=1.2,
    )
    assert manifest.exclusions == ("content.script.drafting",)


def test_a_manifest_reads_the_example_of_section_4_itself():
    document = json.loads(spec_examples.CAPABILITY_MANIFEST)

    assert Manifest.parse(document) == CapabilityManifest.parse(document).to_manifest()


def test_the_registrys_contract_is_a_manifest():
    manifest = RegistryEntry.parse(spec_examples.REGISTRY_ENTRY).to_manifest()

    assert manifest.agent == "research-agent"
    assert manifest.role == "Deepens context from several sources"
    assert manifest.interface == (Interface.SINGLE, Interface.CHAINED, Interface.DUAL_PHASE)
    assert manifest.artifacts_produced == ("working-file", "summary-block")
    assert manifest.max_depth is Depth.DEEP


def test_an_agent_info_is_a_manifest():
    manifest = AgentInfo.parse(spec3_examples.AGENT_INFO).to_manifest()

    assert manifest.agent == "code-analyzer"
    assert manifest.role == "Code Analyzer"
    assert [item.name for item in manifest.capabilities] == [
        "code_analysis",
        "complexity_scoring",
        "dependency_graph",
    ]
    assert manifest.tools == ("file_reader", "ast_parser", "code_analyzer")


def test_a_capability_keeps_what_the_spec_has_no_word_for():
    capability = Capability(name="a.b", idempotent=True, params_schema={"type": "object"})
    manifest = Manifest(agent="scout", capabilities=(capability,), max_concurrency=4)

    entry = RegistryEntry.from_manifest(manifest)

    assert entry.document()["capabilities"] == [
        {
            "name": "a.b",
            "confidence": 1.0,
            "constraints": [],
            "latency_weight": 1.0,
            "idempotent": True,
            "params_schema": {"type": "object"},
        }
    ]
    assert entry.ether == {"max_concurrency": 4}


@pytest.mark.parametrize(
    "missing", ["id", "version", "role", "capabilities", "interface", "artifactsProduced", "maxDepth"]
)
def test_an_entry_without_a_required_field_is_refused_by_name(missing: str):
    document = dict(spec_examples.REGISTRY_ENTRY)
    del document[missing]

    with pytest.raises(InvalidManifest, match=f"RegistryEntry is not valid: {missing}: Field required"):
        RegistryEntry.parse(document)


def test_an_entry_that_contradicts_itself_is_refused():
    document = {**spec_examples.REGISTRY_ENTRY, "version": "latest"}

    with pytest.raises(InvalidManifest, match=r"'latest' of research-agent is no semantic version"):
        RegistryEntry.parse(document).to_manifest()


def test_a_depth_that_is_none_is_refused():
    with pytest.raises(InvalidManifest, match=r"maxDepth: Input should be 'quick', 'learning' or 'deep'"):
        RegistryEntry.parse({**spec_examples.REGISTRY_ENTRY, "maxDepth": "abyssal"})
