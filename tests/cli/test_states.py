"""`ether states`."""

from __future__ import annotations

from pydantic import BaseModel

from ether import Agent, Runtime, capability
from tests.cli.command import Command, table


class Count(BaseModel):
    n: int = 0


class Tally(Agent):
    """Counts."""

    state: Count

    @capability("tally.add")
    def add(self) -> int:
        self.state.n += 1
        return self.state.n


def test_states_are_listed_and_that_of_an_agent_that_is_gone_is_forgotten(own: Command, own_bus: Runtime) -> None:
    own_bus.start(Tally)
    assert own_bus.delegate("tally.add").result(10.0).data == 1

    head, row = table(own("states", "list"))
    kept = own("states", "forget", "tally")
    own_bus.stop("tally")
    wrong, forgotten = own("states", "forget", "taly"), own("states", "forget", "tally")

    assert head == ["AGENT", "VERSION", "BYTES", "NUMBER"]
    assert (row[:2], row[3]) == (["tally", "1"], "1")
    assert kept.code != 0
    assert "tally is up: stop it before its state is forgotten." in kept.err
    assert "No agent 'taly' has saved a state. Did you mean 'tally'?" in wrong.err
    assert wrong.code == 2
    assert (forgotten.code, forgotten.err) == (0, "the state of tally is forgotten\n")
    assert own("states", "list", "-o", "json").json == []
