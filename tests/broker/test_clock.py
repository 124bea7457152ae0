from __future__ import annotations

import subprocess
import sys

import pytest

from ether_broker.clock import ManualClock, SystemClock
from tests.support import child_environment


def test_a_clock_is_moved_and_does_not_go_back():
    clock = ManualClock(5.0)

    assert clock.advance(2.0) == clock.monotonic() == clock.wall() == 7.0
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1.0)


def test_a_jump_moves_the_wall_clock_alone():
    clock = ManualClock(5.0)
    before = clock.boot
    clock.jump(-3600.0)
    clock.advance(1.0)

    assert (clock.monotonic(), clock.wall(), clock.boot) == (6.0, -3594.0, before)


def test_a_machine_that_starts_anew_counts_from_the_beginning_and_knows_the_time_of_day():
    clock = ManualClock(5.0)
    clock.jump(100.0)
    before = clock.boot
    clock.reboot(off=30.0, start=1.0)

    assert (clock.monotonic(), clock.wall()) == (1.0, 135.0)
    assert clock.boot != before


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say which start this is")
def test_two_processes_of_one_machine_agree_on_its_start_and_on_its_clock():
    code = "from ether_broker.clock import SystemClock as C; c = C(); print(c.boot, c.monotonic())"
    before = SystemClock().monotonic()
    boot, told = subprocess.check_output([sys.executable, "-c", code], text=True, env=child_environment()).split()

    assert boot == SystemClock().boot
    assert len(boot) == 36
    assert before <= float(told) <= SystemClock().monotonic()


def test_a_system_that_does_not_say_which_start_this_is_leaves_it_open(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr("ether_broker.clock._BOOT", tmp_path / "missing")

    assert SystemClock().boot == ""
