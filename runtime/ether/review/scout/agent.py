"""Scout on the bus: the five actions of spec 1 §4.2 as capabilities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

from ether.review.scout.explore import examine, explore
from ether.review.scout.files.limits import AnalysisLimits
from ether.review.scout.files.words import plural
from ether.review.scout.params import Exploration, FilePath, Findings, Search
from ether.review.scout.search import search
from ether.review.scout.summary import Group, summarise
from ether_actors.agent.agent import Agent
from ether_actors.agent.declarations.capability import capability
from ether_actors.task.task import Task
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status

__all__ = ["Scout"]

_MARGIN: Final = 0.1
"""Part of the time left that is kept for putting the result together, instead of running into TIMEOUT."""
_MAX_MARGIN: Final = 5.0
"""Seconds."""


class Scout(Agent):
    """An agent that analyses directories of code and reports findings.

    It looks at files and runs none of them; all five capabilities are idempotent. Paths are those of the
    machine that runs it. What an answer leaves out for its bounds is counted in it, and an answer that was
    cut short by the deadline, a bound or a cancellation is PARTIAL.
    """

    tools: ClassVar[tuple[str, ...]] = ("ruff", "ast", "tokenize", "regex")
    artifacts_produced: ClassVar[tuple[str, ...]] = ("findings", "outline")

    @capability("scout.explore_directory", confidence=0.9, idempotent=True, latency_weight=5.0)
    def explore_directory(self, exploration: Exploration, task: Task) -> Response:
        """Analyse a directory: its structure, its bugs, its documentation."""
        root = Path(exploration.path).expanduser()
        if not root.is_dir():
            return _no_such(task, "directory", exploration.path)
        limits = AnalysisLimits(depth=exploration.depth, findings=exploration.max_findings)
        result = explore(root, exploration.passes, limits=limits, progress=task.progress, cancelled=_out_of_time(task))
        return _answer(task, result, result["insights"][0] if result["insights"] else "")

    @capability("scout.analyze_file", confidence=0.9, idempotent=True)
    def analyze_file(self, file: FilePath, task: Task) -> Response:
        """Analyse one file: findings, figures and outline."""
        path = Path(file.path).expanduser()
        if not path.is_file():
            return _no_such(task, "file", file.path)
        result = examine(path, cancelled=_out_of_time(task))
        return _answer(task, result, f"{plural(sum(result['counts'].values()), 'finding')} in {path.name}.")

    @capability("scout.search_content", confidence=0.95, idempotent=True)
    def search_content(self, wanted: Search, task: Task) -> Response:
        """Find lines by literal text or regular expression."""
        timeout = min(wanted.timeout, task.remaining * (1 - _MARGIN))
        try:
            result = search(wanted.model_copy(update={"timeout": timeout}), cancelled=lambda: task.cancelled)
        except NotADirectoryError:
            return _no_such(task, "directory", wanted.path)
        except ValueError as error:
            return task.respond(Status.REJECTED_CONTEXT, summary=str(error), unexpected_fields=("pattern",))
        return _answer(
            task, result, f"{plural(len(result['matches']), 'line')} in {plural(result['files_searched'], 'file')}."
        )

    @capability("scout.extract_structure", confidence=0.95, idempotent=True)
    def extract_structure(self, file: FilePath, task: Task) -> Response:
        """Give the outline of one file: its classes and functions."""
        path = Path(file.path).expanduser()
        if not path.is_file():
            return _no_such(task, "file", file.path)
        whole = examine(path, ())
        result = {name: whole[name] for name in ("path", "language", "symbols", "symbols_omitted", "notes")}
        return _answer(task, result, f"{plural(len(result['symbols']), 'symbol')} in {path.name}.")

    @capability("scout.summarize_findings", confidence=0.9, idempotent=True)
    def summarize_findings(self, findings: Findings, task: Task) -> Response:
        """Bring the findings of several analyses together: totals, ranking, recommendations."""
        plain = (Group("", findings.findings),) if findings.findings else ()
        result = summarise([*findings.groups, *plain], findings.top)
        return _answer(task, result, result["summary"])


def _out_of_time(task: Task) -> Callable[[], bool]:
    """Whether to stop: cancelled, or so near the deadline that what there is should be answered now."""
    margin = min(_MAX_MARGIN, _MARGIN * task.remaining)
    return lambda: task.cancelled or task.remaining < margin


def _no_such(task: Task, kind: str, path: str) -> Response:
    return task.respond(
        Status.REJECTED_CONTEXT,
        summary=f"{path} is not a {kind} where {task.agent} runs: pass a path of that machine.",
        unexpected_fields=("path" if "path" in task.delegation.params else "file",),
    )


def _answer(task: Task, result: dict[str, Any], summary: str) -> Response:
    if result.get("complete", True):
        return task.respond(Status.COMPLETED, result, summary=summary)
    return task.respond(Status.PARTIAL, result, summary=summary, unresolved=tuple(result["notes"][:1]))
