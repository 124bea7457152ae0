from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from ether.cli.top import screen
from ether.cli.top.rates import Reading, Sample


def agent(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "agent": name, "node": "n1", "condition": "up", "queued": 0, "in_flight": 0, "outcomes": {},
        "p50": None, "p99": None, **fields,
    }  # fmt: skip


def sample(clock: float, accepted: int, *agents: dict[str, Any]) -> Sample:
    statistics = {
        "clock": clock, "accepted": accepted, "open": 1, "nodes": 2, "outcomes": {"COMPLETED": accepted},
        "dead_letters_held": 3,
    }  # fmt: skip
    return Sample(statistics, agents)


def test_rates_are_differences_by_the_brokers_clock() -> None:
    before = sample(100.0, 10, agent("a", outcomes={"COMPLETED": 4}))
    after = sample(102.0, 30, agent("a", outcomes={"COMPLETED": 9, "FAILED_EXECUTION": 1}))

    reading = Reading.between(before, after)

    assert (reading.interval, reading.accepted_rate, reading.ended_rate) == (2.0, 10.0, 3.0)
    assert (reading.agents[0].rate, reading.agents[0].completed, reading.agents[0].ended) == (3.0, 9, 10)


def test_an_agent_that_has_just_come_counts_from_nothing() -> None:
    reading = Reading.between(sample(0.0, 0), sample(1.0, 5, agent("new", outcomes={"COMPLETED": 5})))

    assert reading.agents[0].rate == 5.0


def test_a_broker_that_was_started_anew_has_no_negative_rates() -> None:
    before = sample(900.0, 50, agent("a", outcomes={"COMPLETED": 50}))
    after = sample(1.0, 2, agent("a", outcomes={"COMPLETED": 2}))

    reading = Reading.between(before, after)

    assert (reading.interval, reading.accepted_rate, reading.ended_rate) == (0.0, 0.0, 0.0)


def test_two_samples_of_one_moment_have_no_rates() -> None:
    one = sample(5.0, 1, agent("a", outcomes={"COMPLETED": 1}))

    assert Reading.between(one, one).ended_rate == 0.0


def test_the_busiest_come_first_then_the_fullest_then_by_name() -> None:
    before = sample(0.0, 0)
    after = sample(
        1.0, 0, agent("idle-b"), agent("idle-a"), agent("full", queued=9), agent("busy", outcomes={"COMPLETED": 1})
    )  # fmt: skip

    assert [reading.agent for reading in Reading.between(before, after).agents] == [
        "busy", "full", "idle-a", "idle-b",
    ]  # fmt: skip


def test_a_bus_that_does_not_answer_is_told_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=100, height=10)
    monkeypatch.setattr(screen, "console", lambda: console)
    monkeypatch.setattr(screen, "sleep", lambda _seconds: None)
    reading = Reading.between(sample(0.0, 0), sample(1.0, 0, agent("back")))
    answers: Iterator[Reading | str] = iter(["no answer: TIMEOUT", reading])

    screen.show(reading, lambda: next(answers), 1.0, "ipc:///run/bus.sock", 2)

    text = drawn.getvalue()
    assert text.index("1 agents") < text.index("no answer: TIMEOUT") < text.rindex("back")


def test_a_picture_has_every_figure_and_fits_the_screen() -> None:
    agents = [agent(f"agent-{number:02}", queued=20 - number, p50=0.0123, p99=1.5) for number in range(20)]
    reading = Reading.between(sample(0.0, 0, *agents), sample(2.0, 8, *agents))
    console = Console(width=120, height=15, record=True)

    console.print(screen.draw(reading, "ipc:///run/bus.sock", console.height))
    lines = console.export_text().splitlines()

    assert len(lines) <= 15
    assert "ipc:///run/bus.sock   20 agents on 2 nodes" in lines[0]
    assert "accepted 4.0/s" in lines[1]
    assert "dead letters 3" in lines[1]
    assert "COMPLETED 8" in lines[2]
    assert lines[5].split() == ["agent-00", "n1", "up", "20", "0", "0.0", "0", "0", "12.3", "ms", "1.5", "s"]
    assert lines[-1] == "and 12 more"
