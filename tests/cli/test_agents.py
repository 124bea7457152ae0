"""`ether agents`, `ether capabilities` and `ether nodes`."""

from __future__ import annotations

from typing import Any

import pexpect
import pytest

from ether import Agent, Event, Runtime, on_event
from ether.cli.bus.agents import _condition
from tests.cli.command import Command, table


class Listener(Agent):
    @on_event("a.*")
    def hear(self, event: Event) -> None: ...


def test_agents_are_listed_with_how_they_are_and_what_they_have_done(own: Command) -> None:
    own("exec", "greeter", "greet", "--name", "Ada")
    own("exec", "greeter", "greet")

    head, *rows = table(own("agents"))

    assert head[:3] == ["AGENT", "NODE", "CONDITION"]
    assert [row[0] for row in rows] == ["counter", "greeter"]
    assert rows[1][1:3] == ["host", "up"]
    assert rows[1][5:7] == ["1", "1"]
    assert rows[1][-2:] == ["Greets", "people."]


def test_agents_as_json_have_every_field_and_as_lines_one_each(ether: Command) -> None:
    whole = ether("agents", "-o", "json").json
    lines = ether("agents", "-o", "jsonl").lines

    assert [row["agent"] for row in whole] == [row["agent"] for row in lines] == ["counter", "greeter"]
    assert whole[0]["max_concurrency"] == 4
    assert "test.count" in whole[0]["capabilities"]


def test_capabilities_are_listed_with_their_parameters(ether: Command) -> None:
    rows = {row[0]: row for row in table(ether("capabilities"))[1:]}

    assert rows["test.people.greet"][:7] == ["test.people.greet", "greeter", "0.9", "yes", "name", "[title=]", "A"]
    assert rows["test.count"][3:6] == ["no", "[to=3]", "[data=False]"]
    assert rows["test.echo"][4] == "…"
    assert list(rows) == sorted(rows)


def test_capabilities_of_one_agent_are_its_own(ether: Command) -> None:
    rows = ether("capabilities", "greeter", "-o", "jsonl").lines

    assert {row["agent"] for row in rows} == {"greeter"}
    assert next(row for row in rows if row["capability"] == "test.people.greet")["params_schema"]["required"] == [
        "name"
    ]


def test_capabilities_of_an_unknown_agent_are_a_usage_error_with_the_nearest(ether: Command) -> None:
    done = ether("capabilities", "greter")

    assert (done.code, done.out) == (2, "")
    assert "There is no agent 'greter' with capabilities. Did you mean 'greeter'?" in done.err


def test_what_agents_can_do_is_told_without_a_bus(alone: Command) -> None:
    done = alone("capabilities", "greeter", "--agent", "tests.cli.agents:Greeter", "-o", "json")

    assert {row["capability"] for row in done.json} == {"test.echo", "test.people.greet", "test.raw"}


@pytest.mark.slow
def test_a_table_is_drawn_on_a_terminal(ether: Command) -> None:
    with ether.terminal("agents") as child:
        child.expect(r"\x1b\[1m *AGENT")
        child.expect("greeter")
        child.expect("Greets people.")
        child.expect(pexpect.EOF)


def test_nodes_are_listed_this_commands_own_too(own: Command) -> None:
    rows = table(own("nodes"))[1:]

    assert len(rows) == 2
    assert "host" in {row[0] for row in rows}


BLOCKING = {"blocking": {"seconds": 5.5, "at": "crew.py:12 in ask"}}


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({}, "up"),
        ({"busy_for": 6.25, "in_flight": 1}, "busy 6.25 s"),
        ({"busy_for": 6.25}, "up"),
        (
            {"busy_for": 6.25, "load": BLOCKING},
            "blocks 5.5 s at crew.py:12 in ask",
        ),
        ({"stalled_for": 2.0, "load": BLOCKING}, "stalled 2 s"),
    ],
)
def test_how_an_agent_is_in_a_few_words(told: dict[str, Any], shown: str) -> None:
    idle = {"condition": "up", "busy_for": 0.0, "stalled_for": 0.0, "load": {}, "in_flight": 0}
    assert _condition({**idle, **told}) == shown


def test_an_agent_that_only_subscribes_is_listed_without_capabilities(own: Command, own_bus: Runtime) -> None:
    own_bus.start(Listener)

    assert own("capabilities").code == 0
    assert own("capabilities", "greeter").code == 0
    (row,) = [row for row in own("agents", "-o", "json").json if row["agent"] == "listener"]
    assert row["capabilities"] == []
    assert own("delegate", "test.greeting.missing").code == 5
    assert own_bus.manifests("listener") == [
        {"agent": "listener", "capabilities": [], "subscriptions": [{"topic": "a.*"}]}
    ]
