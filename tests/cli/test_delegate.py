"""`ether exec` and `ether delegate`."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from uuid import uuid4

import pexpect
import pytest

from ether import Agent, Budget, Runtime, capability
from ether.testing import Probe
from tests.cli.agents import STARTED
from tests.cli.command import Command
from tests.support import wait_until

AGENTS = "tests.cli.agents"
COLOUR = re.compile(r"\x1b\[[\d;]*3\d")


class Later(Exception):
    retryable = True


class Shy(Agent):
    """Answers when it is asked again."""

    asked = 0

    @capability("test.shy")
    def answer(self) -> int:
        self.asked += 1
        if self.asked == 1:
            raise Later("not yet")
        return self.asked


def test_text_is_the_data_alone_and_the_rest_goes_to_stderr(ether: Command) -> None:
    done = ether("exec", "greeter", "greet", "--param", "name=Ada")

    assert (done.code, done.out) == (0, "Hello, Ada\n")
    assert done.err.startswith("COMPLETED by greeter in ")


def test_data_that_is_no_text_is_printed_as_json(ether: Command) -> None:
    assert ether("exec", "greeter", "test.echo", "-p", "a=1").json == {"a": 1}


def test_quiet_says_nothing_on_stderr(ether: Command) -> None:
    assert ether("-q", "exec", "greeter", "greet", "--name", "Ada").err == ""


def test_json_is_the_whole_outcome(ether: Command) -> None:
    done = ether("exec", "greeter", "greet", "--name", "Ada", "-o", "json")

    assert done.json["status"] == "COMPLETED"
    assert done.json["data"] == "Hello, Ada"
    assert done.json["from_agent"] == "greeter"


def test_the_format_may_stand_before_the_command_and_after_it_counts_more(ether: Command) -> None:
    before = ether("-o", "json", "exec", "greeter", "greet", "--name", "Ada")
    both = ether("-o", "json", "exec", "greeter", "greet", "--name", "Ada", "-o", "jsonl")

    assert before.out.count("\n") > 1
    assert both.out.count("\n") == 1
    assert ether("exec", "greeter", "greet", "--name", "Ada", ETHER_FORMAT="jsonl").out.count("\n") == 1


def test_bytes_are_base64_in_json(ether: Command) -> None:
    assert ether("exec", "greeter", "raw", "--size", "3", "-o", "json").json["data"] == "AAAA"


def test_parameters_arrive_as_they_are_meant(ether: Command) -> None:
    words = ["-p", "a=1", "--params", '{"a": 0, "b": 2}', "--max-depth", "3", "--deep", "--path=src"]

    assert ether("exec", "greeter", "echo", *words).json == {
        "a": 1, "b": 2, "max_depth": 3, "deep": True, "path": "src",
    }  # fmt: skip


def test_behind_two_dashes_an_option_is_a_parameter(ether: Command) -> None:
    assert ether("exec", "greeter", "echo", "--", "--timeout", "3").json == {"timeout": 3}


def test_parameters_are_read_from_a_file_and_from_stdin(ether: Command, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"from": "file"}', encoding="utf-8")

    assert ether("exec", "greeter", "echo", "--params", f"@{file}").json == {"from": "file"}
    assert ether("exec", "greeter", "echo", "--params", "-", stdin='{"from": "stdin"}').json == {"from": "stdin"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "name"], "--param 'name' is no NAME=VALUE"),
        (["-p", "=1"], "--param '=1' is no NAME=VALUE"),
        (["-p", "a=1", "--a", "2"], "Parameter a is given twice"),
        (["--request-id", str(uuid4()), "--agent", f"{AGENTS}:Greeter"], "--agent makes a bus for this call alone"),
        (["--permission", "a=1", "--permission", "a=2"], "--permission a is given twice."),
        (["--permission", "can_delegate=no"], "can_delegate is 'no': write True or False"),
        (["--params", "[1]"], "--params is a list and has to be an object"),
        (["--params", '{"a": }'], "--params is not JSON: 1:7: Expecting value"),
        (["--params", "@missing.json"], "--params cannot read missing.json: No such file"),
        (["--params", "@/dev/zero"], "--params cannot read /dev/zero: more than 16,777,216 bytes"),
        (["--context", "{"], "--context is not JSON: 1:2"),
        (["-x", "1"], "'-x' is too much"),
        (["src"], "'src' is too much"),
        (["--timeout", "0"], "--timeout is 0 and has to be more than 0"),
        (["--timeout", "soon"], "--timeout"),
        (["-o", "xml"], "'xml' is not one of 'text', 'json', 'jsonl'"),
    ],
)
def test_a_bad_parameter_is_a_usage_error_in_one_line(ether: Command, words: list[str], said: str) -> None:
    done = ether("exec", "greeter", "echo", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_an_option_before_the_names_is_told_where_parameters_stand(ether: Command) -> None:
    done = ether("exec", "--path", "src", "greeter", "echo")

    assert done.code == 2
    assert "no option --path before the names" in done.err


def test_a_misspelt_option_that_became_a_parameter_is_told(ether: Command) -> None:
    done = ether("exec", "counter", "count", "--timeuot", "5")

    assert done.code == 5
    assert "--timeuot is no option, and so was taken as a parameter. Did you mean '--timeout'?" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("count", "--date"), "--date is no option, and so was taken as a parameter. Did you mean '--data'?"),
        (("test.end", "--status"), "--status has no value, and so is true."),
        (("count", "--to", "many"), ""),
    ],
)
def test_the_own_parameters_of_what_was_asked_for_are_known_too(
    ether: Command, words: tuple[str, ...], said: str
) -> None:
    done = ether("exec", "counter", *words)

    assert done.code == 5
    assert [line.strip() for line in done.err.splitlines() if " and so " in line or "Did you mean" in line] == [
        line for line in [said] if line
    ]


def test_a_bus_named_where_that_is_a_parameter_is_told(ether: Command) -> None:
    done = ether("exec", "counter", "count", "--name", "shop")

    assert done.code == 5
    assert "--name is a parameter here; the bus that runs under a name is --connect ipc://NAME." in done.err


def test_a_bus_named_where_none_runs_under_the_default_name_is_told(alone: Command) -> None:
    said = "--name is a parameter here; the bus that runs under a name is --connect ipc://NAME."
    none = alone("delegate", "test.echo", "--name", "shop")
    assert (none.code, said in none.err) == (3, True)
    assert said not in alone("delegate", "test.echo", "--nme", "shop").err


def test_priority_and_retry_are_those_of_delegate(own: Command, own_bus: Runtime) -> None:
    probe = own_bus.observe(Probe())
    own_bus.start(Shy)

    assert own("delegate", "test.shy", "--retry", "2", "--priority", "low").out == "2\n"
    assert own_bus.settle(probe)
    asked = [seen.delegation.priority for seen in probe.delegations if seen.capability == "test.shy"]
    assert asked == ["low", "low"]

    wrong = own("delegate", "test.shy", "--priority", "hgh")
    assert (wrong.code, "There is no priority 'hgh'. Did you mean 'high'?" in wrong.err) == (2, True)
    wrong = own("delegate", "test.shy", "--retry", "0")
    assert (wrong.code, "attempts is 0; give a whole number of attempts" in wrong.err) == (2, True)


def test_the_best_holder_is_found_by_capability_and_by_prefix(ether: Command) -> None:
    assert ether("delegate", "test.people.greet", "--name", "Ada").out == "Hello, Ada\n"
    assert ether("delegate", "test.people", "--name", "Ada").out == "Hello, Ada\n"


def test_the_objective_and_the_context_travel_along(own: Command, own_bus: Runtime) -> None:
    own("exec", "greter", "echo", "--objective", "learn", "--context", '{"seen": [1]}')
    letter = own("dead-letters", "show", "1", "-o", "json").json

    assert letter["delegation"]["objective"] == "learn"
    assert letter["delegation"]["context_slice"] == {"seen": [1]}
    assert letter["delegation"]["context_sha256"].startswith("sha256:")


def test_an_unknown_agent_is_refused_with_the_nearest(ether: Command) -> None:
    done = ether("exec", "greter", "greet")

    assert (done.code, done.out) == (5, "")
    assert "REJECTED_CAPABILITY" in done.err
    assert "Did you mean 'greeter'?" in done.err


def test_an_unknown_capability_is_refused_with_the_nearest(ether: Command) -> None:
    done = ether("delegate", "test.people.great")

    assert done.code == 5
    assert "Did you mean 'test.people.greet'?" in done.err


def test_missing_fields_are_named(ether: Command) -> None:
    done = ether("exec", "greeter", "greet", "--title", "Dr")

    assert done.code == 5
    assert "REJECTED_CONTEXT" in done.err
    assert "missing: name" in done.err


def test_a_handler_that_raised_is_told_without_its_traceback_unless_asked(ether: Command) -> None:
    plain, debug = ether("exec", "counter", "fail"), ether("--debug", "exec", "counter", "fail")

    assert plain.code == debug.code == 1
    assert "ValueError: the handler's own words" in plain.err
    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [("PARTIAL", 6, "unresolved: the rest"), ("NEEDS_INPUT", 6, "question: which one?")],
)
def test_an_unfinished_answer_has_its_own_code(ether: Command, status: str, code: int, said: str) -> None:
    done = ether("exec", "counter", "end", "--status", status)

    assert done.code == code, done
    assert done.err.count(said.partition(": ")[2]) == 1
    assert said in done.err


def test_what_else_a_delegation_can_say_has_options(own: Command, own_bus: Runtime) -> None:
    probe = own_bus.observe(Probe())
    request_id = "018f6b1e-0000-7000-8000-000000000001"
    words = ("--budget", "max_cost=0.5", "--budget", "max_tokens=9")
    words += ("--permission", "can_modify_files=false", "--permission", "can_delegate=False")

    done = own("exec", "nobody", "test.echo", "--text", "a", *words, "--request-id", request_id, "--fallback")
    sent = probe.expect(capability="test.echo").delegation

    assert done.code == 0, done
    assert sent.budget == Budget(max_cost=0.5, max_tokens=9)
    assert sent.permissions == {"can_modify_files": False, "can_delegate": False}
    assert (sent.request_id, sent.fallback) == (request_id, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "max_cots=1"], "Did you mean 'max_cost'?"),
        (["--budget", "0.5"], "--budget '0.5' is no NAME=VALUE, such as --budget max_cost=0.5"),
    ],
)
def test_a_limit_that_there_is_none_of_is_a_usage_error(own: Command, words: list[str], said: str) -> None:
    done = own("delegate", "test.echo", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_passed_deadline_is_code_4(own: Command) -> None:
    done = own("exec", "counter", "wait", "--timeout", "0.05")

    assert done.code == 4
    assert done.err.startswith("ether: TIMEOUT by ether: ")


def test_progress_is_told_in_lines_without_a_terminal(ether: Command) -> None:
    done = ether("delegate", "test.count", "--to", "2", "--data", "--stream")

    assert done.out == "2\n"
    assert done.err.splitlines()[:2] == [
        'progress  50% counted 1 {"number": 1}',
        'progress 100% counted 2 {"number": 2}',
    ]


def test_progress_is_data_in_json_lines(ether: Command) -> None:
    lines = ether("delegate", "test.count", "--to", "2", "--data", "--stream", "-o", "jsonl").lines

    assert [(line["status"], line.get("progress")) for line in lines] == [
        ("PROGRESS", 0.5),
        ("PROGRESS", 1.0),
        ("COMPLETED", None),
    ]
    assert lines[0]["data"] == {"number": 1}


def test_agents_may_be_brought_along(alone: Command) -> None:
    done = alone("exec", "greeter", "greet", "--name", "Ada", "--agent", f"{AGENTS}:Greeter")

    assert (done.code, done.out) == (0, "Hello, Ada\n")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("greeter", "write module:Class"),
        ("no_such_module:Greeter", "There is no module 'no_such_module'"),
        (f"{AGENTS}:Greter", "has no 'Greter'. Did you mean 'Greeter'?"),
        (f"{AGENTS}:NotAnAgent", "is no Agent: derive it from ether.Agent"),
        (f"{AGENTS}:GATE", "is no Agent"),
        (f"{AGENTS}:make_greeter", "is no Agent"),
        ("os:abort", "os:abort is no Agent"),
        (f"{AGENTS}:Broken", "did not start: RuntimeError: no licence"),
        (f"{AGENTS}:Impossible", "declares 'test.echo' twice"),
    ],
)
def test_an_agent_that_cannot_be_brought_is_told(alone: Command, agent: str, said: str) -> None:
    done = alone("delegate", "test.echo", "--agent", agent)

    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import missing_thing", "needs 'missing_thing', which is not installed"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(
    alone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    name = f"mine_{len(code)}"
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    done = alone("delegate", "test.echo", "--agent", f"{name}:Mine")

    assert done.code == 2
    assert said in done.err


def waits(pid: int) -> bool:
    """Whether the main thread of a process was asleep at each of twenty looks; one that only has no core is not."""
    looks = (Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] for _ in range(20) if not time.sleep(0.005))
    return all(state == "S" for state in looks)


@pytest.mark.slow
def test_ctrl_c_cancels_the_work_and_ends_with_130(own: Command, own_bus: Runtime) -> None:
    with own.started("exec", "counter", "wait") as process:
        assert STARTED.wait(15)
        wait_until(lambda: waits(process.pid), what="the command has delegated and waits")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=15)

    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "cancelled: CANCELLED by ether" in err
    assert {agent["agent"]: agent["outcomes"] for agent in own_bus.agents()}["counter"] == {"CANCELLED": 1}


@pytest.mark.slow
def test_a_bar_is_drawn_on_a_terminal(own: Command) -> None:
    with own.terminal("exec", "counter", "wait", "--stream", "--timeout", "1.5") as child:
        child.expect('{"waiting": true}')
        child.expect("half way")
        child.expect("50%")
        child.expect("TIMEOUT by ether")
        child.expect(pexpect.EOF)
        child.wait()

    assert child.exitstatus == 4


@pytest.mark.slow
def test_json_on_a_terminal_is_coloured_unless_no_color_is_set(ether: Command) -> None:
    with ether.terminal("exec", "greeter", "echo", "--a", "1") as child:
        child.expect(pexpect.EOF)
        coloured = str(child.before)
    with ether.terminal("exec", "greeter", "echo", "--a", "1", NO_COLOR="1") as child:
        child.expect(pexpect.EOF)
        plain = str(child.before)

    assert COLOUR.search(coloured)
    assert not COLOUR.search(plain)


def test_the_outcome_is_valid_json_whatever_the_agent_says(ether: Command) -> None:
    done = ether("exec", "greeter", "echo", "-p", "text=„ä“\n\u2028", "-o", "jsonl")

    assert json.loads(done.out)["data"]["text"] == "„ä“\n\u2028"
