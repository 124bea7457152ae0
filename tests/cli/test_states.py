"""`ether states`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

from ether import Agent, Runtime, capability
from ether_broker.security.access_list import Access, DelegateRule, RegisterRule
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


def test_a_state_is_shown(own: Command, own_bus: Runtime) -> None:
    own_bus.start(Tally)
    nothing = own("states", "show", "tally")
    own_bus.delegate("tally.add").result(10.0)

    shown, wrong = own("states", "show", "tally"), own("states", "show", "taly")

    assert "No agent 'tally' has saved a state." in nothing.err
    assert json.loads(shown.out) == own("states", "show", "tally", "-o", "json").json == {"n": 1}
    assert (wrong.code, wrong.out) == (2, "")
    assert "No agent 'taly' has saved a state. Did you mean 'tally'?" in wrong.err


def test_a_state_is_not_shown_to_who_may_not_host_the_agent(folder: Path) -> None:
    access = Access(delegate=[DelegateRule("*", "*")], register=[RegisterRule("host", "*")], read="*")
    url = f"ipc://{folder}/guarded.sock"
    with Runtime(bind=url, name="host", access=access, drain=0.0) as bus:
        bus.start(Tally)
        bus.delegate("tally.add").result(10.0)

        refused = Command(folder, url)("states", "show", "tally")

    assert (refused.code, refused.out) == (5, "")
    assert refused.err.startswith("ether: access_denied: The node ")
    assert "may not host 'tally', nor know its state" in refused.err


def test_a_state_is_forgotten_in_the_journal_of_a_cluster_that_does_not_run(own: Command, folder: Path) -> None:
    path = folder / "journal.db"
    with Runtime(journal=path) as bus:
        bus.start(Tally)
        bus.delegate("tally.add").result(10.0)
        in_use = own("states", "forget", "tally", "--journal", str(path))
    assert in_use.code != 0
    assert "journal_locked" in in_use.err

    listed = own("states", "list", "--journal", str(path), "-o", "json").json
    shown = own("states", "show", "tally", "--journal", str(path), "-o", "json").json
    forgotten = own("states", "forget", "tally", "--journal", str(path))
    again, missing = (
        own("states", "forget", "tally", "--journal", str(folder / name)) for name in ("journal.db", "no.db")
    )

    assert [row["agent"] for row in listed] == ["tally"]
    assert shown == {"n": 1}
    assert "the state of tally is forgotten" in forgotten.err
    assert "No agent 'tally' has saved a state." in again.err
    assert f"There is no journal at {folder / 'no.db'}." in missing.err
    with Runtime(journal=path) as bus:
        bus.start(Tally)
        assert bus.delegate("tally.add").result(10.0).data == 1


def test_a_state_is_forgotten_in_the_journal_of_a_cluster_that_was_killed(own: Command, folder: Path) -> None:
    """As after a class has changed: nobody can stop its agent, which does not start."""
    path = folder / "killed.db"
    program = f"""
import os, signal
from ether import Runtime
from tests.cli.test_states import Tally

with Runtime(journal={str(path)!r}) as bus:
    bus.start(Tally)
    assert bus.delegate("tally.add").result(10.0).data == 1
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL

    forgotten = own("states", "forget", "tally", "--journal", str(path))

    assert (forgotten.code, "the state of tally is forgotten" in forgotten.err) == (0, True), forgotten.err
    assert own("states", "list", "--journal", str(path), "-o", "json").json == []
    with Runtime(journal=path) as bus:
        bus.start(Tally)
        assert bus.delegate("tally.add").result(10.0).data == 1


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
    assert kept.err == "ether: invalid_envelope: tally is up, so its state is not forgotten: stop it.\n"
    assert "No agent 'taly' has saved a state. Did you mean 'tally'?" in wrong.err
    assert wrong.code == 2
    assert (forgotten.code, forgotten.err) == (0, "the state of tally is forgotten\n")
    assert own("states", "list", "-o", "json").json == []
