"""The log observer: one line for each message that passes the bus."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from ether_actors.observers.log_entry import body_of, entry_of, level_of, text_of
from ether_actors.observers.observer import Observation, Observer
from ether_broker.clock import Clock, SystemClock
from ether_broker.errors import InvalidSpec
from ether_broker.tap import ReadBatch

__all__ = ["Log"]

_MOST_REPEATS: Final = 1_024
_SAME: Final = ("kind", "status", "event", "from", "to", "capability", "agent", "reason", "error")
"""Fields by which two lines say the same."""


class Log(Observer):
    """An observer that writes one line for each message, to the standard `logging` or to a text stream.

        with Path("bus.jsonl").open("a") as file:
            bus.observe(Log())                                            # logger `ether.messages`
            bus.observe(Log(sys.stderr, level=logging.WARNING))           # only what went wrong
            lines = bus.observe(Log(file, form="jsonl"))                  # one JSON object a line
            bus.delegate("text.count", {"text": "two words"}).result()
            assert bus.settle(lines)
        assert json.loads(Path("bus.jsonl").read_text().splitlines()[-1])["status"] == "COMPLETED"

    The level is DEBUG for signs of life, INFO for what is as it should be, WARNING for rejections, PARTIAL, restarts, dead
    letters and gaps, ERROR for TIMEOUT and FAILED_EXECUTION. A log record carries the fields as `record.ether`, a dict.

    Bodies may hold secrets, so nothing of them is written but durations, counts and the bus's own words: no arguments,
    results, messages or tracebacks. `bodies=True` writes them, cut to a length.

    A stream is flushed after each batch and never closed. What it raises is logged and counted in `failures`.

    Args:
        target: a logger or a stream; None is the logger `ether.messages`.
        form: `text`, for people, or `jsonl`, for programs; names and values are escaped, so that a line is one message.
        level: messages below it are left out; a logger's own level counts too.
        bodies: whether bodies are written.
        body_limit: characters of a body that are written at most.
        quiet: seconds, by the broker's clock, in which a line that says the same as an earlier one (same kind, status,
            agents, capability and error code) is left out; the next one says how many were, as `repeated`. 0 writes all.
        clock: where the wall time is read at which a line was written to a stream.

    Raises:
        InvalidSpec: an option that cannot be.
    """

    def __init__(
        self,
        target: logging.Logger | TextIO | None = None,
        *,
        form: Literal["text", "jsonl"] = "text",
        level: int = logging.DEBUG,
        bodies: bool = False,
        body_limit: int = 500,
        quiet: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        if form not in {"text", "jsonl"}:
            msg = f"form={form!r}: a log is 'text' or 'jsonl'."
            raise InvalidSpec(msg)
        if body_limit < 0 or quiet < 0:
            msg = f"body_limit={body_limit} and quiet={quiet:g} are 0 or more."
            raise InvalidSpec(msg)
        self._target = logging.getLogger("ether.messages") if target is None else target
        self._form = form
        self._level = level
        self._body_limit = body_limit if bodies else None
        self._quiet = quiet
        self._clock = clock or SystemClock()
        self._repeats: OrderedDict[tuple[Any, ...], tuple[float, int]] = OrderedDict()
        """{what a line says: (when it was last written, how often it was left out since)}."""

    def on_message(self, observation: Observation) -> None:
        """Write a line, or count it as a repetition."""
        entry = entry_of(observation)
        level = level_of(entry)
        if not self._is_enabled(level) or self._is_repeated(entry, observation.time):
            return
        if self._body_limit is not None:
            entry["body"] = body_of(observation, self._body_limit)
        self._write(level, entry)

    def on_gap(self, first: int, last: int) -> None:
        """Say which messages were missed."""
        if self._is_enabled(logging.WARNING):
            self._write(logging.WARNING, {"number": first, "kind": "GAP", "last": last, "missed": last - first + 1})

    def on_stop(self) -> None:
        """Say of each line that was left out how often."""
        for key, (_, count) in self._repeats.items():
            self._tell_repeats(key, count)
        self._repeats.clear()
        self._flush()

    def observe(self, batch: ReadBatch) -> None:
        """Write a batch, and flush the stream."""
        super().observe(batch)
        self.guard(self._flush)

    def _flush(self) -> None:
        if not isinstance(self._target, logging.Logger):
            self._target.flush()

    def _is_enabled(self, level: int) -> bool:
        if level < self._level:
            return False
        return not isinstance(self._target, logging.Logger) or self._target.isEnabledFor(level)

    def _is_repeated(self, entry: dict[str, Any], time: float) -> bool:
        if not self._quiet:
            return False
        key = tuple(entry.get(name) for name in _SAME)
        written, count = self._repeats.get(key, (None, 0))
        if written is not None and 0 <= time - written < self._quiet:
            self._repeats[key] = (written, count + 1)
            return True
        if count:
            entry["repeated"] = count
        self._repeats[key] = (time, 0)
        self._repeats.move_to_end(key)
        if len(self._repeats) > _MOST_REPEATS:
            oldest, (_, left_out) = self._repeats.popitem(last=False)
            self._tell_repeats(oldest, left_out)
        return False

    def _tell_repeats(self, key: tuple[Any, ...], count: int) -> None:
        if count:
            entry = {name: value for name, value in zip(_SAME, key, strict=True) if value is not None}
            self._write(level_of(entry), {"number": self.position, **entry, "repeated": count})

    def _write(self, level: int, entry: dict[str, Any]) -> None:
        if isinstance(self._target, logging.Logger):
            line = text_of(entry) if self._form == "text" else _json(entry)
            self._target.log(level, "%s", line, extra={"ether": entry})
            return
        moment = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat(timespec="milliseconds")
        name = logging.getLevelName(level)
        if self._form == "text":
            self._target.write(f"{moment} {name:7} {text_of(entry)}\n")
        else:
            self._target.write(f"{_json({'written': moment, 'level': name, **entry})}\n")


def _json(entry: dict[str, Any]) -> str:
    return json.dumps(entry, default=repr)
