"""Whatever passes, the metrics are what the definitions say of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether_actors.observers.metrics.metrics import Metrics
from ether_actors.observers.metrics.quantile_sketch import ACCURACY
from ether_broker.clock import ManualClock
from ether_broker.envelope.status import Status
from tests.actors.observers.naive import Naive, Outcome
from tests.actors.observers.stream import Stream, request_id

AGENTS = ["ann", "bob"]
CAPABILITIES = ["x.do", "x.undo"]
TERMINAL = [status for status in Status if status.is_terminal]

delegations = st.tuples(st.just("delegation"), st.sampled_from(CAPABILITIES), st.sampled_from([None, *AGENTS]))
outcomes = st.tuples(
    st.just("outcome"),
    st.integers(0, 5),  # which of the open ones
    st.fixed_dictionaries({
        "status": st.sampled_from(TERMINAL),
        "by": st.sampled_from([*AGENTS, "ether"]),
        "attempt": st.integers(1, 5),
    }, optional={
        "confidence": st.floats(0, 1),
        "elapsed": st.floats(0, 1e4),
        "unresolved": st.lists(st.just("open"), max_size=3),
        "metadata": st.fixed_dictionaries({"retries": st.integers(0, 3)}),
    }),
)  # fmt: skip
progress = st.tuples(st.just("progress"), st.integers(0, 5), st.sampled_from(AGENTS))
moves = st.tuples(st.just("move"), st.integers(0, 5), st.sampled_from(AGENTS), st.sampled_from(CAPABILITIES))
time = st.tuples(st.just("time"), st.floats(0, 40) | st.floats(0, 0.1))
streams = st.lists(delegations | delegations | outcomes | outcomes | progress | moves | time, max_size=60)


@settings(max_examples=150)
@given(streams)
def test_metrics_equal_a_naive_recomputation_over_the_window(steps: list[Any]) -> None:
    metrics = Metrics(clock=ManualClock())
    naive = play(steps, Stream(metrics))
    snapshot = metrics.snapshot()

    for seconds in (60.0, 300.0, None):
        window = snapshot.windows["all" if seconds is None else f"{seconds:g}"]
        same(asdict(window.overall), naive.figures(snapshot.time, seconds))
        for agent, figures in window.by_agent.items():
            same(asdict(figures), naive.figures(snapshot.time, seconds, agent=agent))
        for capability, figures in window.by_capability.items():
            same(asdict(figures), naive.figures(snapshot.time, seconds, capability=capability))
        assert sum(figures.ended for figures in window.by_agent.values()) == window.overall.ended
        assert sum(figures.ended for figures in window.by_capability.values()) == window.overall.ended


def play(steps: list[Any], stream: Stream) -> Naive:
    """Feed the stream, and write every outcome down as the definitions see it."""
    naive = Naive()
    under_way: list[tuple[str, float, str, str | None]] = []
    for number, (kind, *rest) in enumerate(steps):
        if kind == "delegation":
            capability, to = rest
            stream.delegation(str(number), capability, to)
            under_way.append((str(number), stream.now, capability, to))
        elif kind == "time":
            stream.passes(rest[0])
        elif kind == "move":
            which, to, capability = rest
            if under_way:
                name, began, _, _ = under_way.pop(which % len(under_way))
                stream.event(
                    "reassigned", request_id=request_id(name), agent=to, capability=capability, attempt=2, returns=0
                )
                under_way.append((name, began, capability, to))
        elif under_way:
            which, told = rest
            name, began, capability, to = under_way[which % len(under_way)]
            if kind == "progress":
                stream.response(name, Status.PROGRESS, told)
                naive.progress.append((stream.now, told, capability))
                continue
            under_way.remove((name, began, capability, to))
            stream.response(name, **told)
            status: Status = told["status"]
            naive.outcomes.append(Outcome(
                time=stream.now,
                agent=(to or "(nobody)") if told["by"] == "ether" else told["by"],
                capability=capability,
                status=status.name,
                turnaround=stream.now - began,
                attempt=told["attempt"],
                retries=told.get("metadata", {}).get("retries", 0),
                confidence=told.get("confidence"),
                elapsed=told.get("elapsed"),
                unresolved=len(told.get("unresolved", ())),
            ))  # fmt: skip
    return naive


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    turnarounds, wanted_turnarounds = found.pop("turnaround"), wanted.pop("turnaround")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name] == (pytest.approx(value) if isinstance(value, float) else value), name
    assert turnarounds["count"] == wanted_turnarounds["count"]
    for part in ("p50", "p90", "p99"):
        if wanted_turnarounds[part] is None:
            assert turnarounds[part] is None
        else:
            assert turnarounds[part] == pytest.approx(wanted_turnarounds[part], rel=ACCURACY + 1e-9, abs=1.1e-6)
