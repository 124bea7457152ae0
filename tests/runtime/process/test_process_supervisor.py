from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from ether import Closed, InvalidSpec, Unserialisable
from ether.errors import ProcessFailed
from ether.process.process_supervisor import ProcessSpec, ProcessStatistics, ProcessSupervisor
from ether_actors.backoff import Backoff
from ether_actors.restarts.tree import Lifecycle
from tests.support import REPOSITORY, process_is_alive, wait_until


class Ward:
    """A process supervisor, and what it told."""

    def __init__(self, intensity: int = 1) -> None:
        self.events: list[str] = []
        self.lines: list[str] = []
        self.failed: list[ProcessFailed] = []
        self.process_supervisor = ProcessSupervisor(
            intensity=intensity,
            period=60.0,
            backoff=Backoff(initial=0.0),
            on_event=self.events.append,
            on_output=lambda name, line: self.lines.append(f"{name} {line}"),
            on_failed=self.failed.append,
        )
        self.process_supervisor.start()

    def add(
        self, name: str, does: str = "stay", *, drain: float = 5.0, start_timeout: float = 30.0, last: bool = False,
        escalate: bool = False, **more: object,
    ):  # fmt: skip
        request = {"does": does, "folder": ".", **more}
        spec = ProcessSpec(
            name, "tests.runtime.child", lambda: request, drain, start_timeout, last=last, escalate=escalate
        )
        self.process_supervisor.add(spec)

    def up(self, *names: str) -> None:
        """Start processes, and wait until they are up."""
        for name in names:
            self.add(name)
        for name in names:
            self.process_supervisor.wait_up(name)

    def spend(self, name: str) -> None:
        """Have a process end once more often than it may."""
        for restarts in (0, 1):
            wait_until(lambda seen=restarts: self.entry(name).restarts == seen and self.pid(name))
            os.kill(self.pid(name) or 0, signal.SIGKILL)

    def entry(self, name: str) -> ProcessStatistics:
        return next(entry for entry in self.process_supervisor.statistics() if entry.name == name)

    def pid(self, name: str) -> int | None:
        return self.entry(name).pid


@pytest.fixture
def ward(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ward]:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=os.pathsep)  # where it runs is not where it imports from
    ward = Ward()
    yield ward
    ward.process_supervisor.kill()
    ward.process_supervisor.close()


def test_a_process_that_does_not_come_up_in_time_is_killed_and_told(ward: Ward):
    ward.add("slow", "hang", start_timeout=1.0)

    with pytest.raises(ProcessFailed, match="slow was not up after 1 s") as raised:
        ward.process_supervisor.wait_up("slow")
    assert raised.value.process == "slow"
    assert ward.failed == []


def test_a_signal_reaches_one_process_and_nobody_once_all_have_ended(ward: Ward):
    ward.add("one")
    ward.add("other")
    ward.process_supervisor.wait_up("one")
    ward.process_supervisor.wait_up("other")
    before = ward.pid("other")

    killed = ward.process_supervisor.signal("one", signal.SIGKILL)
    assert killed is not None
    wait_until(lambda: ward.pid("one") not in (killed, None), what="one is started again")
    assert not process_is_alive(killed)
    assert ward.pid("other") == before
    assert ward.process_supervisor.signal("nobody", signal.SIGKILL) is None

    ward.process_supervisor.kill()
    assert ward.process_supervisor.wait(20)
    assert ward.process_supervisor.signal("other", signal.SIGKILL) is None


def test_a_process_that_ends_while_it_starts_is_told_with_its_last_words(ward: Ward):
    ward.add("broken", "print")
    with pytest.raises(ProcessFailed, match=r"broken ended while it started \(exit code 0\). It said: xxx") as raised:
        ward.process_supervisor.wait_up("broken")

    assert raised.value.exit == 0
    assert raised.value.output[:3] == ("one", "two", "three")


def test_a_process_that_crashes_in_c_shows_where(ward: Ward):
    ward.add("broken", "segfault")

    with pytest.raises(ProcessFailed, match="killed by SIGSEGV") as raised:
        ward.process_supervisor.wait_up("broken")
    assert raised.value.exit == -signal.SIGSEGV
    assert any("Segmentation fault" in line for line in raised.value.output)


def test_a_childs_own_error_comes_out_typed(ward: Ward):
    ward.add("broken", "fail")

    with pytest.raises(InvalidSpec, match=r"^broken: not like this$"):
        ward.process_supervisor.wait_up("broken")


def test_a_request_that_cannot_travel_is_told(ward: Ward):
    ward.add("broken", callback=lambda: None)

    with pytest.raises(Unserialisable):
        ward.process_supervisor.wait_up("broken")


def test_a_process_that_cannot_be_started_is_told(ward: Ward, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    ward.add("broken")

    with pytest.raises(ProcessFailed, match=r"broken cannot start: .*No such file"):
        ward.process_supervisor.wait_up("broken")


def test_one_that_never_came_up_is_not_tried_again_and_leaves_the_others_alone(ward: Ward):
    ward.add("good")
    ward.add("broken", "fail")
    ward.process_supervisor.wait_up("good")
    with pytest.raises(InvalidSpec):
        ward.process_supervisor.wait_up("broken")

    states = {entry.name: (entry.state, entry.pid is None) for entry in ward.process_supervisor.statistics()}
    assert states == {"good": (Lifecycle.RUNNING, False), "broken": (Lifecycle.DONE, True)}


def test_each_process_has_a_budget_of_its_own(ward: Ward):
    for name in ("one", "two", "three"):
        ward.add(name)
        ward.process_supervisor.wait_up(name)
    for name in ("one", "two", "three"):
        pid = ward.pid(name)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: [entry.restarts for entry in ward.process_supervisor.statistics()] == [1, 1, 1])

    assert ward.process_supervisor.failed is None


def test_a_spent_budget_of_one_that_escalates_ends_all_and_says_whose(ward: Ward):
    ward.add("good")
    ward.add("bad", escalate=True)
    ward.process_supervisor.wait_up("good")
    ward.process_supervisor.wait_up("bad")
    good = ward.pid("good")
    ward.spend("bad")
    assert ward.process_supervisor.wait(10.0)

    assert ward.failed == [ward.process_supervisor.failed]
    assert (ward.failed[0].process, ward.failed[0].exit) == ("bad", -signal.SIGKILL)
    assert good is not None
    assert not process_is_alive(good)


@pytest.mark.filterwarnings("ignore:bad gave up, and the others go on:RuntimeWarning")
def test_one_that_has_spent_its_budget_is_given_up_until_it_is_added_again(ward: Ward):
    ward.up("good", "bad")
    good = ward.pid("good")
    ward.spend("bad")
    wait_until(
        lambda: any("bad gave up, and the others go on: it ended more than 1 times" in said for said in ward.events)
    )

    assert (ward.entry("bad").state, ward.pid("bad"), ward.pid("good")) == (Lifecycle.DONE, None, good)
    assert not ward.process_supervisor.is_kept("bad")
    with pytest.raises(ProcessFailed, match="bad ended more than 1 times"):
        ward.process_supervisor.ask("bad", {}, 60.0)
    ward.add("bad")
    ward.process_supervisor.wait_up("bad")
    assert (ward.entry("bad").state, ward.entry("bad").restarts, ward.pid("good")) == (Lifecycle.RUNNING, 0, good)
    assert ward.failed == []


@pytest.mark.filterwarnings("ignore:one gave up, and the others go on:RuntimeWarning")
def test_when_the_last_is_given_up_all_end(ward: Ward):
    ward.add("broker", last=True, escalate=True)
    for name in ("one", "two"):
        ward.add(name)
        ward.process_supervisor.wait_up(name)
    ward.spend("one")
    wait_until(lambda: ward.entry("one").state is Lifecycle.DONE)
    ward.spend("two")
    assert ward.process_supervisor.wait(10.0)

    assert [failure.process for failure in ward.failed] == ["two"]
    assert [entry.pid for entry in ward.process_supervisor.statistics()] == [None, None, None]


@pytest.mark.filterwarnings("ignore:bad gave up, and the others go on:RuntimeWarning")
def test_one_that_is_given_up_while_another_is_between_two_lives_is_not_the_last(ward: Ward):
    ward.up("good", "bad")
    with ward.process_supervisor.defer_end():
        ward.process_supervisor.remove("good")
        ward.spend("bad")
        wait_until(lambda: ward.process_supervisor.why_given_up("bad"))
        ward.add("good")
        ward.process_supervisor.wait_up("good")

    assert (ward.entry("good").state, ward.failed) == (Lifecycle.RUNNING, [])


@pytest.mark.filterwarnings("ignore:bad gave up, and the others go on:RuntimeWarning")
def test_when_the_last_was_given_up_and_what_was_to_come_does_not_all_end(ward: Ward):
    ward.add("broker", last=True, escalate=True)
    ward.add("bad")
    ward.process_supervisor.wait_up("bad")
    with ward.process_supervisor.defer_end():
        ward.spend("bad")
        wait_until(lambda: ward.process_supervisor.why_given_up("bad"))
        ward.add("other", "fail")
        with pytest.raises(InvalidSpec):
            ward.process_supervisor.wait_up("other")
    assert ward.process_supervisor.wait(10.0)

    assert [failure.process for failure in ward.failed] == ["bad"]


def test_what_does_not_end_in_its_time_is_killed(ward: Ward, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ether.process.process_supervisor.GRACE", 0.1)
    ward.add("deaf", "deaf", drain=0.1)
    ward.process_supervisor.wait_up("deaf")

    assert ward.process_supervisor.stop(10.0)
    assert "deaf did not end in time; it is killed" in ward.events
    assert "deaf has ended (killed by SIGKILL)" in ward.events


def test_a_stop_ends_what_is_still_starting_and_wakes_who_waits_for_it(ward: Ward):
    ward.add("slow", "hang", drain=0.0)
    wait_until(lambda: ward.lines == ["slow deaf"])
    told: list[BaseException] = []

    def wait() -> None:
        try:
            ward.process_supervisor.wait_up("slow")
        except Closed as error:
            told.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    ward.process_supervisor.kill()
    waiter.join(10.0)

    assert [str(error) for error in told] == ["slow was stopped while it started."]


def test_what_is_asked_of_a_warden_that_has_ended_changes_nothing(ward: Ward):
    assert ward.process_supervisor.stop(10.0)
    ward.process_supervisor.kill()

    assert ward.process_supervisor.stop(1.0)
    assert ward.process_supervisor.statistics() == []
