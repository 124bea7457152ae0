"""The text for Prometheus, as its own parser reads it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ether_actors.observers.metrics.definitions import DEFINITIONS
from ether_actors.observers.metrics.metrics import Metrics
from ether_actors.observers.metrics.prometheus import CONTENT_TYPE
from ether_broker.clock import ManualClock
from ether_broker.envelope.ids import foreign_id
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Kind, pack_envelope
from tests.actors.observers.stream import Stream

Labels = frozenset[tuple[str, str]]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(clock=ManualClock())


@pytest.fixture
def stream(metrics: Metrics) -> Stream:
    return Stream(metrics)


def parse(text: str) -> dict[str, dict[Labels, float]]:
    """{name of a sample: {labels: value}}."""
    found: dict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in {"counter", "gauge", "histogram"}
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            assert labels not in found[sample.name], f"{sample} is there twice"
            found[sample.name][labels] = sample.value
    return found


def labels(**pairs: Any) -> Labels:
    return frozenset((name, str(value)) for name, value in pairs.items())


def test_the_text_says_what_the_json_says(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", takes=0.2, elapsed=0.1, confidence=0.9)
    stream.work("b", by="bob", capability="x.undo", takes=3.0, attempt=2, unresolved=("one", "two"))
    stream.work("c", Status.TIMEOUT)
    stream.delegation("d", to=None)
    stream.ruling("d", Status.REJECTED_CAPABILITY)
    stream.event("dead_letter", reason="late")
    stream.event("suggestion")
    stream.passes(100.0)
    stream.loses(3)
    stream.delegation("still open")
    told = metrics.snapshot().as_dict()
    found = parse(metrics.to_prometheus())

    assert found["ether_delegations_total"] == {
        labels(agent=pair["agent"], capability=pair["capability"], status=status): count
        for pair in told["pairs"]
        for status, count in pair["by_status"].items()
    }
    assert sum(found["ether_delegations_total"].values()) == told["windows"]["all"]["overall"]["ended"] == 4
    for agent, figures in told["windows"]["all"]["by_agent"].items():
        counted = {dict(key)["status"]: value for key, value in found["ether_delegations_total"].items()
                   if dict(key)["agent"] == agent}  # fmt: skip
        assert counted == {status: count for status, count in figures["by_status"].items() if count}
    for definition in DEFINITIONS:
        gauge = found[f"ether_{definition.prometheus or definition.name}"]
        if definition.name == "gap_suggestion_frequency":
            assert gauge == {labels(): told[definition.name]}
        else:
            assert gauge == {
                labels(window=name): window["overall"][definition.name]
                for name, window in told["windows"].items()
                if window["overall"][definition.name] is not None
            }
    assert found["ether_messages_total"] == {labels(kind=kind): count for kind, count in told["messages"].items()}
    assert found["ether_dead_letters_total"] == {labels(reason="late"): 1}
    assert found["ether_events_total"] == {labels(event=name): count for name, count in told["events"].items()}
    assert found["ether_delegations_open"] == {labels(): told["open"]} == {labels(): 1}
    assert found["ether_messages_missed_total"] == {labels(): told["missed"]} == {labels(): 3}
    assert found["ether_window_messages_missed"][labels(window="60")] == told["windows"]["60"]["missed"] == 3
    assert found["ether_retries_total"][labels(agent="bob", capability="x.undo")] == 1
    assert found["ether_unresolved_items_total"][labels(agent="bob", capability="x.undo")] == 2


def test_the_histogram_rises_to_its_count(metrics: Metrics, stream: Stream) -> None:
    for number, takes in enumerate((0.0005, 0.05, 0.05, 1.0, 5_000.0)):
        stream.work(str(number), takes=takes)
    found = parse(metrics.to_prometheus())
    buckets = {dict(key)["le"]: value for key, value in found["ether_turnaround_seconds_bucket"].items()}
    pair = labels(agent="ann", capability="x.do")

    assert [buckets[le] for le in ("0.0001", "0.001", "0.0464159", "0.1", "1", "1000", "+Inf")] == [0, 1, 1, 3, 4, 4, 5]
    assert list(buckets.values()) == sorted(buckets.values())
    assert found["ether_turnaround_seconds_count"] == {pair: 5}
    assert found["ether_turnaround_seconds_sum"][pair] == pytest.approx(5_001.1005)


def test_what_is_not_known_has_no_sample(metrics: Metrics, stream: Stream) -> None:
    stream.work("a", Status.REJECTED_CONTEXT)
    found = parse(metrics.to_prometheus())

    assert found["ether_delegation_success_rate"][labels(window="all")] == 0.0
    assert "ether_success_rate" not in found
    assert "ether_average_confidence" not in found


def test_without_a_message_the_text_is_valid_and_counts_nothing(metrics: Metrics) -> None:
    values = [value for samples in parse(metrics.to_prometheus()).values() for value in samples.values()]

    assert set(values) == {0.0}


@given(st.binary(max_size=40).map(b"x".__add__), st.text(min_size=1, max_size=40))
def test_names_are_escaped_whatever_a_peer_sends(capability: bytes, event: str) -> None:
    metrics = Metrics(clock=ManualClock())
    stream = Stream(metrics)
    for kind, source in ((Kind.DELEGATION, b"user"), (Kind.RESPONSE, b"ether")):
        stream.give(pack_envelope(
            kind, request_id=foreign_id("a"), source=source, capability=capability, body=b"\x80",
            status=Status.REJECTED_CAPABILITY if kind is Kind.RESPONSE else 0,
        ))  # fmt: skip
    stream.event(event)
    found = parse(metrics.to_prometheus())
    name = capability.decode(errors="replace")

    wanted = labels(agent="(nobody)", capability=name, status="REJECTED_CAPABILITY")
    assert found["ether_delegations_total"] == {wanted: 1}
    assert found["ether_events_total"] == {labels(event=event): 1}


def test_a_line_looks_as_the_format_says(metrics: Metrics, stream: Stream) -> None:
    stream.work("a")
    lines = metrics.to_prometheus().splitlines()

    assert lines[:3] == [
        "# HELP ether_delegations_total Delegations that ended.",
        "# TYPE ether_delegations_total counter",
        'ether_delegations_total{agent="ann",capability="x.do",status="COMPLETED"} 1',
    ]
    assert "version=0.0.4" in CONTENT_TYPE


def test_a_quote_a_backslash_and_a_line_feed_are_escaped(metrics: Metrics, stream: Stream) -> None:
    stream.event('say "a\\b"\n')

    assert r'ether_events_total{event="say \"a\\b\"\n"} 1' in metrics.to_prometheus().splitlines()
    assert labels(event='say "a\\b"\n') in parse(metrics.to_prometheus())["ether_events_total"]


def test_the_number_of_samples_is_bounded(stream: Stream) -> None:
    metrics = Metrics(limit=5, clock=ManualClock())
    stream = Stream(metrics)
    for number in range(100):
        stream.work(f"a{number}", by=f"agent-{number}")
        stream.delegation(f"b{number}", f"made.up-{number}", to=None)
        stream.ruling(f"b{number}", Status.REJECTED_CAPABILITY)

    assert len(parse(metrics.to_prometheus())["ether_delegations_total"]) == 5 + 5 + 2
