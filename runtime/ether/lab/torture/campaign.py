"""A campaign from its settings to its report: what `ether torture` calls."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from ether.lab.torture.checker.checker import judge
from ether.lab.torture.history.history import read_evidence
from ether.lab.torture.history.log import Diary, read_diary
from ether.lab.torture.plan.fault_plan import delegator_names, make_faults, make_plan
from ether.lab.torture.plan.settings import Settings
from ether.lab.torture.processes.leak_check import left_behind
from ether.lab.torture.processes.nemesis import Nemesis
from ether.lab.torture.processes.processes import Stage
from ether.lab.torture.report import Report, make_report
from ether_actors.restarts.tree import Lifecycle
from ether_broker.errors import UsageError

__all__ = ["reread", "run"]

_PATIENCE: Final = 60.0
"""Seconds after the last strike in which the delegators get through what is left: the longest deadline, thrice."""
_POLL: Final = 0.2
_TELL: Final = 5.0


def run(settings: Settings) -> Report:
    """Run a campaign and check it.

    Raises:
        UsageError: the folder that is to be kept is there already, and not empty.
        EtherError: the processes did not come up.
    """
    folder = _folder(settings)
    is_kept = settings.keep is not None
    try:
        _perform(settings, folder)
        report = reread(folder)
        is_kept = is_kept or not report.ok
    except BaseException:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if not is_kept:
        shutil.rmtree(folder)
    return report if is_kept else replace(report, folder=None)


def reread(folder: Path) -> Report:
    """Check the diaries of a campaign that is over.

    Raises:
        UsageError: as `read_evidence`.
    """
    evidence = read_evidence(folder)
    return make_report(evidence, judge(evidence), folder)


def _folder(settings: Settings) -> Path:
    if settings.keep is None:
        return Path(tempfile.mkdtemp(prefix="ether-torture-diaries-"))
    if settings.keep.exists() and any(settings.keep.iterdir()):
        raise UsageError(f"{settings.keep} is not empty: name another folder for the diaries.")
    settings.keep.mkdir(parents=True, exist_ok=True)
    return settings.keep.resolve()


def _perform(settings: Settings, folder: Path) -> None:
    (folder / "campaign.json").write_text(json.dumps(settings.plain(), indent=2), encoding="utf-8")
    with (
        contextlib.closing(Diary(folder / "output.jsonl")) as output,
        Stage(settings, folder, lambda name, line: _note(output, name, line)) as stage,
    ):
        url = stage.cluster.url
        settings.tell(f"seed {settings.seed}: the cluster is up at {url}")
        try:
            _torture(settings, folder, stage)
            stage.end()
        except BaseException:
            stage.abandon()
            raise
        left = left_behind(stage.mark, stage.scratch, url)
    (folder / "after.json").write_text(json.dumps(left, indent=2), encoding="utf-8")


def _note(output: Diary, name: str, line: str) -> None:
    output.write("output", name=name, line=line)


def _torture(settings: Settings, folder: Path, stage: Stage) -> None:
    """Let the nemesis loose, and wait until it is done and the delegators are, or out of patience."""
    began = stage.begin()
    plan = make_plan(settings)
    faults = make_faults(settings, stage.disk.faults) if stage.disk is not None else ()
    with (
        contextlib.closing(Diary(folder / "nemesis.jsonl")) as diary,
        Nemesis(stage, plan, began, diary, disk=stage.disk, faults=faults) as nemesis,
    ):
        settings.tell(f"{len(plan)} strikes and {settings.delegations:,} delegations in {settings.seconds:g} s")
        if stage.disk is not None:
            cannot = "" if stage.disk.is_mounted else "; it cannot be filled: that needs the right to mount"
            settings.tell(f"the journal's disk fails {len(faults)} times{cannot}")
        limit = began + settings.seconds + _PATIENCE
        told = time.monotonic()
        while not (nemesis.done.is_set() and all(_finished(folder, settings)) and _are_up(stage)):
            if time.monotonic() > limit and nemesis.done.is_set():
                return
            if time.monotonic() - told > _TELL:
                told = time.monotonic()
                settings.tell(f"{told - began:5.0f} s: {nemesis.struck} of {len(plan)} strikes")
            time.sleep(_POLL)


def _are_up(stage: Stage) -> bool:
    """Whether everybody is back from the last strikes, such as an observer that has not seen everything yet."""
    return all(one.state is Lifecycle.RUNNING for one in stage.statistics())


def _finished(folder: Path, settings: Settings) -> Iterator[bool]:
    """Of each delegator, whether its life of this moment has got through its share."""
    for name in delegator_names(settings):
        path = folder / "history" / f"{name}.jsonl"
        last = [line["event"] for line in _tail(path) if line["event"] in {"life", "finished"}]
        yield last[-1:] == ["finished"]


def _tail(path: Path) -> list[dict[str, object]]:
    return read_diary(path) if path.exists() else []
