from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from ether_broker.envelope.manifest.manifest import ANY, Capability, Depth, Interface, Manifest
from ether_broker.errors import InvalidManifest
from tests.broker.strategies import manifests

ACQUIRE = Capability(name="research.context.acquire", confidence=0.95, latency_weight=1.0)
DEEPEN = Capability(name="research.context.deepen", confidence=0.92, latency_weight=1.2)
EXPLORE = Capability(name="scout.explore_directory")
FALLBACK = Capability(name=ANY)
RESEARCHER = Manifest(agent="researcher", capabilities=(ACQUIRE, DEEPEN, EXPLORE))


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("research.context.deepen", DEEPEN),
        ("deepen", DEEPEN),
        ("context.deepen", DEEPEN),
        ("explore_directory", EXPLORE),
        ("scout", EXPLORE),
        ("research", ACQUIRE),
        ("research.context", ACQUIRE),
        ("research.context.deepen.more", None),
        ("resea", None),
        ("research.con", None),
        ("directory", None),
        ("context", None),
        ("unknown", None),
        ("*", None),
    ],
)
def test_a_name_asks_for_itself_then_a_short_form_then_a_prefix(name: str, capability: Capability | None):
    assert RESEARCHER.resolve(name) == capability


def test_a_short_form_of_two_capabilities_is_none():
    manifest = Manifest(agent="a", capabilities=(Capability(name="x.read"), Capability(name="y.read")))

    assert manifest.resolve("read") is None


def test_the_name_itself_goes_before_a_short_form_and_a_prefix():
    whole, longer, below = Capability(name="read"), Capability(name="x.read"), Capability(name="read.file")
    manifest = Manifest(agent="a", capabilities=(longer, below, whole))

    assert manifest.resolve("read") == whole


def test_a_short_form_goes_before_a_prefix():
    longer, below = Capability(name="x.read"), Capability(name="read.file")

    assert Manifest(agent="a", capabilities=(below, longer)).resolve("read") == longer


@pytest.mark.parametrize(
    ("best", "others"),
    [
        (Capability(name="a.z", latency_weight=0.5, confidence=0.1), [Capability(name="a.b")]),
        (Capability(name="a.z", confidence=0.9), [Capability(name="a.b", confidence=0.8)]),
        (Capability(name="a.b"), [Capability(name="a.z")]),
    ],
)
def test_a_prefix_asks_for_the_lightest_then_the_surest_then_the_first(best: Capability, others: list[Capability]):
    assert Manifest(agent="a", capabilities=(*others, best)).resolve("a") == best


def test_a_fallback_agent_takes_what_it_does_not_hold_otherwise():
    manifest = Manifest(agent="llm-executor", capabilities=(DEEPEN, FALLBACK))

    assert manifest.resolve("anything.at.all") == FALLBACK
    assert manifest.resolve("deepen") == DEEPEN
    assert manifest.resolve("*") == FALLBACK


@pytest.mark.parametrize("name", ["content.script.drafting", "content.script.drafting.fast"])
def test_an_exclusion_is_stronger_than_a_fallback(name: str):
    manifest = Manifest(agent="a", capabilities=(FALLBACK,), exclusions=("content.script.drafting",))

    assert manifest.excludes(name)
    assert manifest.resolve(name) is None
    assert manifest.resolve("content.script") == FALLBACK
    assert manifest.resolve("content.script.draftings") == FALLBACK


def test_a_capability_is_found_by_its_exact_name_only():
    assert RESEARCHER.capability("research.context.deepen") is DEEPEN
    assert RESEARCHER.capability("deepen") is None
    assert Manifest(agent="a").capability("deepen") is None


def test_a_copy_with_other_capabilities_holds_those():
    RESEARCHER.resolve("deepen")

    copy = RESEARCHER.model_copy(update={"capabilities": (EXPLORE,)})

    assert copy.resolve("deepen") is None
    assert copy.resolve("explore_directory") is EXPLORE


@pytest.mark.parametrize("version", ["0.1.0", "1.2.0", "2.0.0-rc.1", "1.0.0+build.5"])
def test_versions_are_semantic(version: str):
    assert Manifest(agent="a", version=version).version == version


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.0", "latest", "", "01.0.0"])
def test_a_version_that_is_not_semantic_is_refused(version: str):
    with pytest.raises(InvalidManifest, match=rf"version {version!r} of scout is no semantic version, such as 1\.2\.0"):
        Manifest.parse({"agent": "scout", "version": version})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"capabilities": [{"name": "a.b"}, {"name": "a.b"}]}, "scout declares a.b twice"),
        (
            {"capabilities": [{"name": "a.b"}, {"name": "c"}], "exclusions": ["a"]},
            "scout both declares and excludes a.b",
        ),
        ({"capabilities": [{"name": "a..b"}]}, r"capabilities\.0\.name: "),
        ({"capabilities": [{"name": "a", "confidence": 2}]}, r"capabilities\.0\.confidence: "),
        ({"capabilities": [{"name": "a", "latency_weight": -1}]}, r"capabilities\.0\.latency_weight: "),
        ({"exclusions": ["a b"]}, r"exclusions\.0: "),
        ({"max_concurrency": 0}, "max_concurrency: "),
        ({"max_depth": "abyssal"}, "max_depth: Input should be 'quick', 'learning' or 'deep'"),
        ({"interface": ["broadcast"]}, r"interface\.0: Input should be 'single', 'chained' or 'dual-phase'"),
        ({"exclusion": []}, r"exclusion: .* Did you mean 'exclusions'\?"),
    ],
)
def test_a_manifest_that_contradicts_itself_or_the_rules_is_refused(fields: dict[str, Any], complaint: str):
    with pytest.raises(InvalidManifest, match=complaint):
        Manifest.parse({"agent": "scout", **fields})


@given(manifests())
def test_any_manifest_survives_json_and_pickling(manifest: Manifest):
    assert Manifest.parse(json.loads(manifest.model_dump_json())) == manifest
    assert pickle.loads(pickle.dumps(manifest)) == manifest
    assert hash(manifest) == hash(pickle.loads(pickle.dumps(manifest)))


def test_a_manifest_does_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        RESEARCHER.version = "9.9.9"  # type: ignore[misc]
    with pytest.raises(TypeError, match="does not change"):
        Capability(name="a", params_schema={"type": "object"}).params_schema["type"] = "array"


def test_an_agent_that_says_nothing_goes_deep_alone_and_in_chains():
    manifest = Manifest(agent="a")

    assert manifest.max_depth is Depth.DEEP
    assert manifest.interface == (Interface.SINGLE, Interface.CHAINED)
    assert manifest.max_concurrency == 1
