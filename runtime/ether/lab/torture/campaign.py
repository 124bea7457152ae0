"""A campaign from its settings to its report: what `ether torture` calls."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from ether.lab.harness.leak_check import left_behind
from ether.lab.report import Report
from ether.lab.torture.checker.checker import judge
from ether.lab.torture.fault_plan import delegator_names, make_faults, make_plan
from ether.lab.torture.history.history import read_evidence
from ether.lab.torture.history.log import LogWriter, read_log
from ether.lab.torture.nemesis import Nemesis
from ether.lab.torture.processes import Processes
from ether.lab.torture.report import make_report
from ether.lab.torture.settings import TortureSettings
from ether_actors.restarts.tree import Lifecycle

__all__ = ["reread", "run"]

_PATIENCE: Final = 60.0
"""Seconds after the last strike in which the delegators get through what is left: the longest deadline, thrice."""
_POLL: Final = 0.2
_TELL: Final = 5.0


def run(settings: TortureSettings) -> Report:
    """Run a campaign and check it.

    Raises:
        UsageError: the folder that is to be kept is there already, and not empty.
        EtherError: the processes did not come up.
    """
    kept = settings.make_folder()
    folder = kept or Path(tempfile.mkdtemp(prefix="ether-torture-logs-"))
    try:
        _perform(settings, folder)
        evidence = read_evidence(folder)
        violations = judge(evidence)
        kept = folder if violations else kept
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)
    return make_report(evidence, violations, kept)


def reread(folder: Path) -> Report:
    """Check the logs of a campaign that is over.

    Raises:
        UsageError: as `read_evidence`.
    """
    evidence = read_evidence(folder)
    return make_report(evidence, judge(evidence), folder)


def _perform(settings: TortureSettings, folder: Path) -> None:
    (folder / "campaign.json").write_text(json.dumps(settings.plain(), indent=2), encoding="utf-8")
    with (
        contextlib.closing(LogWriter(folder / "output.jsonl")) as output,
        Processes(settings, folder, lambda name, line: _note(output, name, line)) as processes,
    ):
        url = processes.cluster.url
        settings.tell(f"seed {settings.seed}: the cluster is up at {url}")
        try:
            _torture(settings, folder, processes)
            processes.end()
        except BaseException:
            processes.end(at_once=True)
            raise
        left = left_behind(processes.mark, processes.scratch, url)
    (folder / "after.json").write_text(json.dumps(left, indent=2), encoding="utf-8")


def _note(output: LogWriter, name: str, line: str) -> None:
    output.write("output", name=name, line=line)


def _torture(settings: TortureSettings, folder: Path, processes: Processes) -> None:
    """Let the nemesis loose, and wait until it is done and the delegators are, or out of patience."""
    began = processes.begin()
    plan = make_plan(settings)
    faults = make_faults(settings, processes.disk.faults) if processes.disk is not None else ()
    with (
        contextlib.closing(LogWriter(folder / "nemesis.jsonl")) as log,
        Nemesis(processes, plan, began, log, disk=processes.disk, faults=faults) as nemesis,
    ):
        settings.tell(f"{len(plan)} strikes and {settings.delegations:,} delegations in {settings.seconds:g} s")
        if processes.disk is not None:
            cannot = "" if processes.disk.is_mounted else "; it cannot be filled: that needs the right to mount"
            settings.tell(f"the journal's disk fails {len(faults)} times{cannot}")
        limit = began + settings.seconds + _PATIENCE
        told = time.monotonic()
        while not (nemesis.done.is_set() and _is_finished(folder, settings, processes)):
            if time.monotonic() > limit and nemesis.done.is_set():
                return
            if time.monotonic() - told > _TELL:
                told = time.monotonic()
                settings.tell(f"{told - began:5.0f} s: {nemesis.struck} of {len(plan)} strikes")
            time.sleep(_POLL)


def _is_finished(folder: Path, settings: TortureSettings, processes: Processes) -> bool:
    """Whether each delegator's life of this moment has got through its share, and everybody is back from the last strikes.

    Such as an observer that has not seen everything yet.
    """
    for name in delegator_names(settings):
        lines = read_log(folder / "history" / f"{name}.jsonl")
        last = [line["event"] for line in lines if line["event"] in {"life", "finished"}]
        if last[-1:] != ["finished"]:
            return False
    return all(one.state is Lifecycle.RUNNING for one in processes.statistics())
