"""Every command, on a bus on which somebody writes escapes wherever text may stand: none of them is seen on the other side."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ether import Runtime
from ether_broker.errors import InvalidEnvelope
from tests.cli.command import Command, Done
from tests.cli.hostile_node import ANSWERS, WRITTEN, HostileNode
from tests.cli.test_app import COMMANDS
from tests.hostile_text import FORGED, HOSTILE, obeyed
from tests.support import wait_until

pytestmark = pytest.mark.slow

FORMATS = ("text", "json", "jsonl")


class Bus(NamedTuple):
    """A bus with a hostile node on it."""

    ether: Command
    journal: str
    runtime: Runtime


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    folder = Path(tempfile.mkdtemp(prefix="ether-hostile-"))
    url, journal = f"ipc://{folder}/bus.sock", str(folder / "journal.db")
    try:
        with Runtime(bind=url, journal=journal, drain=0.0) as runtime:
            node = HostileNode(url)
            try:
                wait_until(lambda: runtime.statistics()["dead_letters_held"] >= 4)
                for capability in ANSWERS:
                    with contextlib.suppress(InvalidEnvelope):
                        runtime.delegate(capability, {HOSTILE: HOSTILE}, objective=HOSTILE, to="mallory").result()
                yield Bus(Command(folder, url), journal, runtime)
            finally:
                node.close()
    finally:
        shutil.rmtree(folder)


def check(done: Done, output: str = "text") -> None:
    """Nothing of what was printed is obeyed, and JSON is JSON."""
    assert "is a bug of Ether's" not in done.err, done
    assert obeyed(done.out) == [], "stdout"
    assert obeyed(done.err) == [], "stderr"
    assert re.search(r"[1-9]\d{50}", done.out + done.err) is None, "a number"
    if output == "json" and done.out:
        json.loads(done.out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    elif output == "jsonl":
        for line in done.out.splitlines():
            json.loads(line)


LOOKING = [
    "agents", "capabilities", "capabilities mallory", "capabilities nobody", "nodes", "leases", "top -n 1 -i 0.05",
    "dead-letters list", "doctor", "exec malory done", "exec mallory don", "delegate evil.nothing", "version", "schema",
    "states list", "states show mallory", "states show malory",
]  # fmt: skip


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_the_bus_shows_what_was_written_and_obeys_nothing_of_it(bus: Bus, words: str, output: str) -> None:
    check(bus.ether(*words.split(), "-o", output), output)


def test_json_has_every_sign_that_was_sent(bus: Bus) -> None:
    [mallory] = [row for row in bus.ether("agents", "-o", "json").json if row["agent"] == "mallory"]

    assert mallory["role"] == HOSTILE


def test_a_state_and_an_event_are_read_and_have_every_sign_that_was_written(bus: Bus) -> None:
    written = {HOSTILE: [HOSTILE, None], "ZXZpbA==": HOSTILE, "7": base64.b64encode(WRITTEN[7]).decode()}
    kept = ("--journal", bus.journal, "-o", "json")
    rows = bus.ether("log", "--all", "-n", "1000", *kept).json
    [saved] = [row["number"] for row in rows if row["event"] == "agent_state"]
    published = next(row["number"] for row in rows if row["capability"] == "ether.publish")

    assert bus.ether("states", "show", "mallory", "-o", "json").json == written
    assert bus.ether("log", "show", str(saved), *kept).json[0]["body"]["state"] == written
    assert bus.ether("log", "show", str(published), *kept).json[0]["body"]["params"]["data"] == written


@pytest.mark.parametrize("output", FORMATS)
def test_no_dead_letter_does(bus: Bus, output: str) -> None:
    rows = bus.ether("dead-letters", "list", "-o", "json").json
    reasons = {(row["reason"], row["kind"]): str(row["number"]) for row in rows}

    assert len(reasons) >= 4
    for number in reasons.values():
        check(bus.ether("dead-letters", "show", number, "-o", output), output)


@pytest.mark.parametrize("output", FORMATS)
def test_no_redriven_work_does(bus: Bus, output: str) -> None:
    [one, *_] = [row["number"] for row in bus.ether("dead-letters", "list", "-o", "json").json if row["can_redrive"]]

    check(bus.ether("dead-letters", "redrive", str(one), "--timeout", "2", "-o", output), output)
    check(bus.ether("dead-letters", "redrive", "--all", "--timeout", "2", "-o", output), output)


@pytest.mark.parametrize("output", ["text", "jsonl"])
@pytest.mark.parametrize("capability", ANSWERS)
def test_no_outcome_and_no_progress_does(bus: Bus, capability: str, output: str) -> None:
    asked = ("mallory", capability, "--param", f"{HOSTILE}=1", "--timeout", "5", "-o", output)
    asked = tuple(word.replace("\x00", "") for word in asked)

    done = bus.ether("--debug", "exec", *asked, "--stream")
    if capability == "evil.text" and output == "text":  # what was asked for is a text of several lines
        assert done.out.split("\n")[1].startswith(FORGED)
        done = Done(done.code, done.out.replace(FORGED, ""), done.err)
    check(done, output)


@pytest.mark.parametrize("output", FORMATS)
def test_no_line_of_the_audit_trail_does(bus: Bus, output: str) -> None:
    kept = ("--journal", bus.journal, "-o", output)

    check(bus.ether("log", "--all", "-n", "1000", *kept), output)
    rows = bus.ether("log", "--all", "-n", "1000", "--journal", bus.journal, "-o", "json").json
    found = {(row["kind"], row["event"], row["capability"]): row for row in rows}
    assert len(found) > len(ANSWERS)
    for row in found.values():
        check(bus.ether("log", "show", str(row["number"]), *kept), output)
        if row["kind"] == "DELEGATION":
            check(bus.ether("trace", row["request_id"], *kept), output)
    check(bus.ether("log", "verify", *kept), output)
    check(bus.ether("log", "gc", "--older-than", "1d", "--dry-run", *kept), output)
    check(bus.ether("log", "--agent", HOSTILE.replace("\x00", ""), *kept), output)


@pytest.mark.parametrize("output", FORMATS)
def test_no_line_that_is_followed_does(bus: Bus, output: str) -> None:
    with bus.ether.started("log", "--follow", "--journal", bus.journal, "-o", output) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(10)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    check(Done(process.returncode, "".join(lines) + out, err))


@pytest.mark.parametrize(
    "words",
    ["agents", "capabilities", "nodes", "dead-letters list", "top -n 2 -i 0.05", "exec mallory evil.done --stream",
     "exec mallory evil.fails --stream", "dead-letters show NEWEST"],
)  # fmt: skip
def test_a_terminal_gets_no_escapes_but_our_own(bus: Bus, words: str) -> None:
    [newest, *_] = bus.ether("dead-letters", "list", "-o", "json").json
    with bus.ether.terminal(*words.replace("NEWEST", str(newest["number"])).split(), COLUMNS="400") as child:
        child.expect(child_end())
        shown = child.before or ""

    assert_only_ours(shown)


def test_a_terminal_gets_none_from_the_audit_trail(bus: Bus) -> None:
    [request, *_] = [
        row["request_id"]
        for row in bus.ether("log", "--capability", "evil", "--journal", bus.journal, "-o", "json").json
        if row["request_id"]
    ]
    for words in (["log"], ["log", "show", request], ["trace", request]):
        with bus.ether.terminal(*words, "--journal", bus.journal) as child:
            child.expect(child_end())
            assert_only_ours(child.before or "")


def child_end() -> object:
    import pexpect

    return pexpect.EOF


def assert_only_ours(shown: str) -> None:
    """Of escapes only those that rich draws with, of text nothing that was written to be obeyed."""
    assert "mallory" in shown or "PWNED" in shown
    assert "\x1b]" not in shown
    for sign in "\x07\x9b\x85\x90\x7f\x00\u202e\u202c\u2066\u200e\u200b\u200d\ufeff\u2028\u2029\ue000\u3164":
        assert sign not in shown, repr(sign)
    assert "\x1b[31m red" not in shown
    assert f"\n{FORGED}" not in shown.replace("\r", "")


# -- files, and what children say ---------------------------------------------------------------------------------------

EVIL_NAME = "\x1b]0;PWNED\x07\u202evil\x9b31m\n# FORGED LINE [x](http://evil.example) `<b>` |.py"


def test_a_review_of_files_with_hostile_names_writes_none_of_it(alone: Command, tmp_path: Path) -> None:
    source = tmp_path / "so\x1b]0;PWNED\x07\u202eurce\n# FORGED LINE"
    source.mkdir()
    name = EVIL_NAME.replace("/", "_")
    code = (
        'def f(a=[]):\n    """\x1b]0;PWNED\x07 \u202e"""\n    # TODO: \x1b[31m<b>`|` \u202e\x9b\n    assert (a, "x")\n'
    )
    for file in (name, f"{name[:-3]}\udcff.py"):
        (source / file).write_text(code, encoding="utf-8")
    (source / "README.md").write_text(f"# {HOSTILE}\n\n[x](\x1b]0;)\n", encoding="utf-8")

    for output in FORMATS:
        check(alone("review", str(source), "--output", str(tmp_path), "-j", "0", "-o", output), output)
    assert obeyed((tmp_path / "review.md").read_text(encoding="utf-8")) == []
    assert obeyed((tmp_path / "review.json").read_text(encoding="utf-8")) == []
    assert "PWNED" in (tmp_path / "review.md").read_text(encoding="utf-8")


def test_what_processes_of_a_cluster_say_is_obeyed_by_nobody(alone: Command) -> None:
    done = alone.process("up", "tests.cli.loud_agents:Failing", "--durability", "memory")

    assert done.code != 0
    for said in (
        "printed \\x1b]0;PWNED",
        "on stderr \\x1b]0;PWNED",
        "logged \\x1b]0;PWNED",
        "ValueError: \\x1b]0;PWNED",
    ):
        assert said in done.err
    check(Done(done.code, done.out, done.err.replace(f"| {FORGED}", "").replace(f"| # {FORGED}", "")))


def test_hostile_text_is_hostile() -> None:
    assert len(obeyed(HOSTILE)) > 20
    assert obeyed("plain text\n\tof two lines, naïve cafe\u0301") == []


def test_no_command_was_forgotten() -> None:
    looked_at = {words.split()[0] for words in LOOKING} | {
        "log",
        "trace",
        "dead-letters",
        "review",
        "up",
        "exec",
        "delegate",
    }
    elsewhere = {
        "node": "as up",
        "keys": "shows this user's own files",
        "bench": "shows what it has measured itself",
        "torture": "tests/cli/test_torture.py",
        "soak": "shows what it has measured itself",
    }

    assert set(COMMANDS) - looked_at == set(elsewhere)
