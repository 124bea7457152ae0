"""The outcome of a delegation on the command line: followed while it is under way, then printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from ether.cli.common.output import Format, Output, seconds
from ether.text_io.terminal import console, is_drawn, say
from ether_actors.delegator.handle import Handle
from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import WaitTimeout
from ether_broker.text import json_text, one_line, printable

__all__ = ["follow", "print_outcome", "record"]

_FAREWELL: Final = 2.0
"""Seconds that the work may take to end when Ctrl-C has cancelled it."""
_LABEL: Final = 60
"""Characters beside a bar."""
_REASON: Final = 2_000
"""Characters of one line of what an agent said of its work."""


def follow(handle: Handle, out: Output, *, stream: bool = False) -> Response:
    """Wait for the outcome, showing progress if asked to.

    Raises:
        KeyboardInterrupt: Ctrl-C; the delegation is cancelled first.
    """
    try:
        if not stream:
            return handle.result()
        if out.format is not Format.JSONL and is_drawn(sys.stderr):
            return _bar(handle)
        for response in _following(handle):
            if out.format is Format.JSONL:
                out.value(record(response))
            else:
                out.note(_progress(response))
        return handle.outcome()
    except KeyboardInterrupt:
        handle.cancel()
        try:
            out.note(one_line(f"cancelled: {handle.result(_FAREWELL).explain()}", _REASON))
        except WaitTimeout:
            out.note(f"cancelled; it had not ended {_FAREWELL:g} s later")
        raise


def _bar(handle: Handle) -> Response:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    screen = console(sys.stderr)
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task(handle.delegation.capability, total=None)
        for response in _following(handle):
            if response.progress is not None:
                progress.update(task, completed=response.progress, total=1.0)
            if response.summary:
                progress.update(task, description=one_line(response.summary, _LABEL))
            if response.data is not None:
                screen.print(Text(json_text(thaw(response.data))))
    return handle.outcome()


def _following(handle: Handle) -> Iterator[Response]:
    """The signs of running work; ends with the outcome."""
    for response in handle.stream():
        if response.status.is_terminal:
            return
        yield response


def _progress(response: Response) -> str:
    share = "" if response.progress is None else f"{response.progress:4.0%} "
    data = "" if response.data is None else f" {json_text(thaw(response.data))}"
    return printable(f"{response.status.name.lower()} {share}{response.summary}{data}".rstrip(), _REASON)


def record(response: Response) -> dict[str, Any]:
    """A response as programs get it: its fields that say something, `status` by name; bytes as base64."""
    fields: dict[str, Any] = json.loads(response.model_dump_json(by_alias=True, exclude_defaults=True))
    told = {"request_id": fields.pop("request_id"), "status": response.status.name}
    del fields["status"]
    if response.status.is_terminal:
        fields.setdefault("data", None)
    return {**told, **fields}


def print_outcome(response: Response, out: Output) -> None:
    """Print a terminal response: its data on stdout, how it went on stderr."""
    if not out.is_text:
        out.value(record(response))
        return
    data = thaw(response.data)
    if isinstance(data, str):
        out.value(data, data)
    elif data is not None:
        out.value(json.loads(response.model_dump_json(by_alias=True, include={"data_payload"}))["data"])
    if response.ok:
        took = "" if response.elapsed is None else f" in {seconds(response.elapsed)}"
        summary = f": {one_line(response.summary, _REASON)}" if response.summary else ""
        out.note(f"{response.status.name} by {response.from_agent}{took}{summary}")
        for line in _artifacts(response):
            out.note(line)
    else:
        for line in _reasons(response, debug=out.debug):
            say(line)


def _artifacts(response: Response) -> Iterator[str]:
    for artifact in response.artifacts:
        size = "" if artifact.size is None else f", {artifact.size:,} bytes"
        yield f"  artifact: {one_line(artifact.path, _REASON)}{size}"


def _reasons(response: Response, *, debug: bool) -> Iterator[str]:
    head = response.model_copy(update={"questions": (), "unresolved": ()})  # they get lines of their own
    yield one_line(f"ether: {head.explain()}", _REASON)
    if response.required_fields:
        yield f"  missing: {one_line(', '.join(response.required_fields), _REASON)}"
    if response.unexpected_fields:
        yield f"  unexpected: {one_line(', '.join(response.unexpected_fields), _REASON)}"
    if response.alternative_agent:
        yield f"  try: {one_line(response.alternative_agent)}"
    if response.retry_after is not None:
        yield f"  try again in {seconds(response.retry_after)}"
    yield from (f"  question: {one_line(question, _REASON)}" for question in response.questions)
    yield from (f"  unresolved: {one_line(item, _REASON)}" for item in response.unresolved)
    yield from _artifacts(response)
    trace = response.error.traceback if response.error else None
    if trace and debug:
        yield trace.rstrip()
    elif trace and response.status is Status.FAILED_EXECUTION:
        yield "  `ether --debug …` shows the handler's traceback"
