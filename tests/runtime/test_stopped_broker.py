"""A broker whose process stands still under load, as on a machine that swaps or is suspended, and then goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from ether import Handle, Runtime, Status
from ether.cluster import Cluster
from tests.runtime.cluster.test_cluster_failures import Bus, code, outcome
from tests.support import Stalls, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

AGENTS = ("tally", "tally-2")
BACK = 5.0
"""Seconds of the machine's time in which the nodes are back after a stop, as docs/reliability.md says."""


def load(bus: Runtime, folder: Path, end: threading.Event, handles: list[tuple[str, Handle]]) -> None:
    """Delegate some 200 times a second, of both kinds, until told to end."""
    while not end.wait(0.01):
        handles += [
            (capability, bus.delegate(capability, {"folder": str(folder)}, timeout=120.0))
            for capability in ("tally.once", "tally.again")
        ]


def works(bus: Runtime, folder: Path, agent: str) -> bool:
    handle = bus.delegate("tally.again", {"folder": str(folder)}, to=agent, timeout=1.0)
    return outcome(handle).status is Status.COMPLETED


@pytest.mark.parametrize("is_kept", [True, False], ids=["journal", "memory"])
def test_after_a_stop_of_5_and_of_20_seconds_all_work_ends_once_and_the_nodes_are_back(tmp_path: Path, is_kept: bool):
    journal = str(tmp_path / "journal.db") if is_kept else None
    handles: list[tuple[str, Handle]] = []
    end = threading.Event()
    events: list[str] = []
    with (
        Cluster(
            nodes=2, agents=["tests.runtime.agents:Tally"], drain=5.0, journal=journal, on_event=events.append
        ) as cluster,
        Runtime.connect(cluster.url, name="delegator") as bus,
    ):
        kept = Bus(cluster, bus, tmp_path, events)
        began = list(events)
        loader = threading.Thread(target=load, args=(bus, tmp_path, end, handles))
        loader.start()
        try:
            for seconds in (5.0, 20.0):
                # Given load, and a broker that stands still for longer than anybody may be silent
                before = len(handles)
                wait_until(lambda before=before: len(handles) > before + 100, what="there is load")
                pid = kept.kill("broker", signal.SIGSTOP)
                time.sleep(seconds)

                # When it goes on
                os.kill(pid, signal.SIGCONT)

                # Then the nodes are back soon
                at = time.monotonic()
                with Stalls() as stalls:
                    for agent in AGENTS:
                        wait_until(lambda agent=agent: works(bus, tmp_path, agent), 30.0, f"{agent} works again")
                assert time.monotonic() - at - stalls.seconds < BACK
        finally:
            end.set()
            loader.join()

        # And everything is done, as no node was lost but the broker
        ended = Counter((outcome(handle, 60.0).status, code(outcome(handle))) for _, handle in handles)
        assert ended == {(Status.COMPLETED, None): len(handles)}
        runs = Counter((tmp_path / "runs").read_text(encoding="utf-8").split())
        once = {handle.id for capability, handle in handles if capability == "tally.once"}
        twice = [request_id for request_id in once if runs[request_id] > 1]
        assert twice == []
        assert events == began
