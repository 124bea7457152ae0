"""The log entry of one message: fields that hold no secrets, and a level."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from ether_actors.observers.observer import Observation
from ether_broker.envelope.ids import NO_ID, to_text
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError
from ether_broker.text import printable
from ether_broker.wire.frame import Flag, Kind

__all__ = ["body_of", "entry_of", "level_of", "text_of"]

_LEVELS: Final = {
    Status.ACCEPTED: logging.DEBUG,
    Status.PROGRESS: logging.DEBUG,
    Status.COMPLETED: logging.INFO,
    Status.NEEDS_INPUT: logging.INFO,
    Status.CANCELLED: logging.INFO,
    Status.PARTIAL: logging.WARNING,
    Status.REJECTED_CAPABILITY: logging.WARNING,
    Status.REJECTED_CONTEXT: logging.WARNING,
    Status.REJECTED_OVERLOAD: logging.WARNING,
    Status.TIMEOUT: logging.ERROR,
    Status.FAILED_EXECUTION: logging.ERROR,
}
_ORDERLY: Final = frozenset({"left", "moves", "stopped"})
"""Why an agent goes down when somebody wanted it."""
_FIXED_REASONS: Final = _ORDERLY | {"node_lost", "not_taken"}
_TROUBLE: Final = frozenset({"agent_restarting", "dead_letter", "node_down"})
_EVENT_FIELDS: Final = (
    "agent", "capability", "node", "number", "proposed_agent", "resource", "submitted_by", "token", "version",
)  # fmt: skip
_NUMBERED: Final = {"agent_state": "state"}
"""What the number of an event is of; an entry has its own."""
_IN_FRONT: Final = frozenset({"number", "kind", "status", "event", "from", "to", "capability", "request_id"})


def level_of(entry: dict[str, Any]) -> int:
    """The level of `logging` that fits an entry: by status, and by what an event means."""
    if entry["kind"] == "RESPONSE":
        return _LEVELS[Status[entry["status"]]]
    if entry["kind"] == "EVENT":
        down_unasked = entry["event"] == "agent_down" and entry.get("reason") not in _ORDERLY
        return logging.WARNING if entry["event"] in _TROUBLE or down_unasked else logging.INFO
    return logging.INFO


def entry_of(observation: Observation) -> dict[str, Any]:
    """The fields of a message: {name: number or text}.

    From bodies it takes only what cannot hold an argument or result: durations, counts, and words that the bus defines.
    The message of an error and the reason of a crash are not among them: they may quote what the handler worked on.
    """
    header = observation.header
    entry: dict[str, Any] = {
        "number": observation.number,
        "time": round(observation.time, 6),
        "kind": observation.kind.name,
    }
    match header.kind:
        case Kind.EVENT:
            _add_event(entry, observation)
        case Kind.RESPONSE:
            entry["status"] = Status.of_code(header.status).value
            _add_route(entry, observation)
            _add_outcome(entry, observation)
        case _:
            _add_route(entry, observation)
            if header.deadline:
                entry["timeout"] = round(header.deadline - observation.time, 3)
            if header.parent != NO_ID:
                entry["parent"] = to_text(header.parent)
    if header.attempt > 1:
        entry["attempt"] = header.attempt
    if header.flags & Flag.REDELIVERED:
        entry["redelivered"] = True
    entry["size"] = len(observation.envelope)
    return entry


def _add_route(entry: dict[str, Any], observation: Observation) -> None:
    entry["from"] = observation.from_agent
    entry["to"] = observation.to_agent
    entry["capability"] = observation.capability
    entry["request_id"] = observation.request_id


def _add_outcome(entry: dict[str, Any], observation: Observation) -> None:
    try:
        response = observation.response
    except EtherError:
        entry["unreadable"] = True
        return
    if response.elapsed is not None:
        entry["elapsed"] = round(response.elapsed, 6)
    for name in ("confidence", "progress", "retry_after"):
        value = getattr(response, name)
        if value is not None:
            entry[name] = value
    if response.unresolved:
        entry["unresolved"] = len(response.unresolved)
    if response.error is not None:
        entry["error"] = response.error.code


def _add_event(entry: dict[str, Any], observation: Observation) -> None:
    event = observation.event
    entry["event"] = str(event.get("event"))
    if isinstance(event.get("request_id"), str):
        entry["request_id"] = event["request_id"]
    for name in _EVENT_FIELDS:
        if event.get(name):
            entry[_NUMBERED.get(entry["event"], "letter") if name == "number" else name] = event[name]
    reason = event.get("reason")
    if entry["event"] in {"dead_letter", "node_down"} or reason in _FIXED_REASONS:
        entry["reason"] = str(reason)


def body_of(observation: Observation, limit: int) -> str:
    """The body as JSON text, cut to `limit` characters; what is cut off is counted behind `…`."""
    try:
        if observation.kind is Kind.EVENT:
            body: Any = observation.event
        elif observation.kind is Kind.RESPONSE:
            body = _said(observation.response)
        else:
            body = _said(observation.delegation)
        text = json.dumps(body, ensure_ascii=False, default=repr)
    except (EtherError, TypeError, ValueError) as error:
        text = f"unreadable: {error}"
    return text if len(text) <= limit else f"{text[:limit]}… (+{len(text) - limit:,})"


def _said(envelope: Any) -> dict[str, Any]:
    in_front = {"request_id", "status", "from_agent", "to_agent", "capability", "parent", "attempt", "schema_version"}
    return dict(envelope.model_dump(by_alias=True, exclude_unset=True, exclude=in_front))


def text_of(entry: dict[str, Any]) -> str:
    """An entry in one line: number, what, from whom to whom, what about, and the rest as `name=value`."""
    words = [f"#{entry['number']}", _word(entry.get("event") or entry.get("status") or entry["kind"])]
    if "from" in entry:
        words += [_word(entry["from"]), "->", _word(entry["to"] or "(anyone)")]
    if entry.get("capability"):
        words.append(_word(entry["capability"]))
    if "request_id" in entry:
        words.append(_word(entry["request_id"]))
    words += [f"{name}={_word(value)}" for name, value in entry.items() if name not in _IN_FRONT]
    return " ".join(words)


def _word(value: Any) -> str:
    """A value as one word: text with blanks or anything unprintable is quoted, so that no peer can forge a line."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    text = str(value)
    is_word = bool(text) and not {" ", '"'} & set(text) and text == printable(text)
    return text if is_word else json.dumps(text)
