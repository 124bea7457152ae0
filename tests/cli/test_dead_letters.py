"""`ether dead-letters`."""

from __future__ import annotations

import pytest

from ether import Runtime, Status
from tests.cli.agents import GATE, Greeter
from tests.cli.command import Command, table
from tests.support import wait_until


def bury(bus: Runtime, **params: object) -> None:
    """Leave a dead letter: work for an agent that is not there."""
    assert bus.delegate("greet", params, to="ada").result().status is Status.REJECTED_CAPABILITY


def orphan(bus: Runtime) -> None:
    """Leave another: work that nobody can do."""
    assert bus.delegate("nobody.can.this").result().status is Status.REJECTED_CAPABILITY


def test_dead_letters_are_listed_the_newest_first(own: Command, own_bus: Runtime) -> None:
    bury(own_bus, name="one")
    orphan(own_bus)

    head, *rows = table(own("dead-letters", "list"))

    assert head[:3] == ["NUMBER", "WHEN", "REASON"]
    assert [(row[0], row[3]) for row in rows] == [("2", "no_holder"), ("1", "unknown_agent")]


def test_where_there_are_none_the_list_says_where_those_of_earlier_brokers_are(own: Command, own_bus: Runtime) -> None:
    done = own("dead-letters", "list")

    assert (done.code, done.out) == (0, "")
    assert "ether log --event dead_letter" in done.err


def test_a_reason_and_a_limit_narrow_the_list(own: Command, own_bus: Runtime) -> None:
    bury(own_bus)
    bury(own_bus)
    orphan(own_bus)

    assert [row["number"] for row in own("dead-letters", "list", "--reason", "unknown_agent", "-o", "json").json] == [
        2,
        1,
    ]
    assert [row["number"] for row in own("dead-letters", "list", "-n", "1", "-o", "jsonl").lines] == [3]


def test_an_unknown_reason_is_a_usage_error_that_names_those_that_there_are(alone: Command) -> None:
    done = alone("dead-letters", "list", "--reason", "boredom")

    assert done.code == 2
    assert "no_holder" in done.err


def test_a_dead_letter_is_shown_with_its_delegation(own: Command, own_bus: Runtime) -> None:
    bury(own_bus, name="Ada")

    shown = own("dead-letters", "show", "1").json

    assert (shown["number"], shown["reason"], shown["can_redrive"]) == (1, "unknown_agent", True)
    assert shown["delegation"]["params"] == {"name": "Ada"}
    assert "envelope" not in shown


def test_a_number_that_is_not_there_is_told(own: Command, own_bus: Runtime) -> None:
    bury(own_bus)

    for verb in ("show", "redrive"):
        done = own("dead-letters", verb, "7")
        assert done.code == 2
        assert done.err == "ether: unknown_dead_letter: There is no dead letter 7 (held: 1 to 1).\n"


def test_a_redriven_letter_is_done_and_gone(own: Command, own_bus: Runtime) -> None:
    bury(own_bus, name="Ada")
    own_bus.start(Greeter, name="ada")

    done = own("dead-letters", "redrive", "1")

    assert (done.code, done.out) == (0, "Hello, Ada\n")
    assert own("dead-letters", "list").out == ""


def test_a_letter_that_dies_again_is_a_new_one(own: Command, own_bus: Runtime) -> None:
    bury(own_bus)

    assert own("dead-letters", "redrive", "1").code == 5
    assert [row["number"] for row in own("dead-letters", "list", "-o", "json").json] == [2]


def test_all_of_a_reason_are_redriven_together(own: Command, own_bus: Runtime) -> None:
    bury(own_bus, name="one")
    bury(own_bus, name="two")
    orphan(own_bus)
    own_bus.start(Greeter, name="ada")

    done = own("dead-letters", "redrive", "--all", "--reason", "unknown_agent", "-o", "jsonl")

    assert done.code == 0
    assert [(line["number"], line["data"]) for line in done.lines] == [(1, "Hello, one"), (2, "Hello, two")]
    assert [row["reason"] for row in own("dead-letters", "list", "-o", "json").json] == ["no_holder"]


def test_of_several_one_failure_is_code_1(own: Command, own_bus: Runtime) -> None:
    bury(own_bus, name="one")
    bury(own_bus)
    own_bus.start(Greeter, name="ada")

    done = own("dead-letters", "redrive", "1", "2")

    assert done.code == 1
    assert [row[:2] for row in table(done)[1:]] == [["1", "COMPLETED"], ["2", "REJECTED_CONTEXT"]]
    assert "1 of 2 redriven and done" in done.err


def test_what_cannot_be_redriven_is_told_and_nothing_is_sent(own: Command, own_bus: Runtime) -> None:
    bury(own_bus)
    own_bus.delegate("test.wait", timeout=0.01).result()
    GATE.set()
    wait_until(lambda: own_bus.dead_letters(reason="late"), what="the late answer is a dead letter")

    done = own("dead-letters", "redrive", "1", "2")

    assert done.code == 2
    assert "Dead letter 2 (late) cannot be redriven" in done.err
    assert [row["number"] for row in own("dead-letters", "list", "-o", "json").json] == [2, 1]


@pytest.mark.parametrize("words", [[], ["1", "--all"], ["--reason", "no_holder"], ["1", "--reason", "no_holder"]])
def test_it_has_to_be_said_which(alone: Command, words: list[str]) -> None:
    done = alone("dead-letters", "redrive", *words)

    assert done.code == 2
    assert "Say which" in done.err
