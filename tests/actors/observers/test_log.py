"""One line for each message, and no secrets in it."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_actors.observers.log import Log
from ether_actors.observers.observer import Observer
from ether_broker.clock import ManualClock
from ether_broker.envelope.ids import foreign_id
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidSpec
from ether_broker.wire.frame import Flag, Kind, pack_envelope
from tests.actors.observers.stream import Stream, request_id
from tests.hostile_text import HOSTILE, obeyed

SECRET = "hunter2-hunter2"


class Text(io.StringIO):
    """A stream that knows how often it was flushed."""

    flushes = 0

    def flush(self) -> None:
        self.flushes += 1

    @property
    def lines(self) -> list[str]:
        return self.getvalue().splitlines()

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def text() -> Text:
    return Text()


def stream_to(text: Text, **options: Any) -> Stream:
    return Stream(Log(text, clock=ManualClock(1_700_000_000.5), **options))


def play_everything(stream: Stream) -> int:
    """Every kind of message, each with a secret wherever one fits; how many there were."""
    error = ErrorInfo(code="exception", message=SECRET, traceback=SECRET)
    secrets: dict[str, Any] = {
        "summary": SECRET, "data": {"key": SECRET}, "metadata": {"a": SECRET}, "metrics": {"a": SECRET},
        "unresolved": (SECRET,), "questions": (SECRET,), "error": error, "tools_used": (SECRET,),
    }  # fmt: skip
    for status in Status:
        stream.delegation(
            status.name, params={"password": SECRET}, objective=SECRET, context_slice={"a": SECRET}, workflow=SECRET,
        )  # fmt: skip
        stream.response(status.name, status, **secrets)
    stream.event("agent_restarting", agent="ann", node="here", reason=SECRET)
    stream.event("agent_down", agent="ann", node="here", reason=SECRET)
    stream.event("dead_letter", number=1, reason="late", node="here", detail=SECRET, capability="x.do")
    return stream.number - 1


# -- what is written -------------------------------------------------------------------------------------------


def test_a_delegation_and_its_outcome_are_a_line_each(text: Text) -> None:
    stream = stream_to(text)
    stream.delegation("a", timeout=30.0)
    stream.passes(0.25)
    stream.response("a", elapsed=0.125, confidence=0.9)
    size = len(stream.delegation("a").envelope)

    assert text.lines[0] == (
        "2023-11-14T22:13:20.500+00:00 INFO    #1 DELEGATION user -> ann x.do "
        f"{request_id('a')} time=1000000 timeout=30 size={size}"
    )
    assert " INFO    #2 COMPLETED ann -> user x.do " in text.lines[1]
    assert " time=1000000.25 elapsed=0.125 confidence=0.9 size=" in text.lines[1]


def test_jsonl_has_one_object_a_line(text: Text) -> None:
    stream = stream_to(text, form="jsonl")
    outcome = stream.response("a", Status.REJECTED_OVERLOAD, retry_after=2.0, attempt=2)

    assert text.entries == [
        {
            "written": "2023-11-14T22:13:20.500+00:00",
            "level": "WARNING",
            "number": 1,
            "time": 1_000_000.0,
            "kind": "RESPONSE",
            "status": "REJECTED_OVERLOAD",
            "from": "ann",
            "to": "user",
            "capability": "x.do",
            "request_id": request_id("a"),
            "retry_after": 2.0,
            "attempt": 2,
            "size": len(outcome.envelope),
        }
    ]


def test_every_message_is_a_line(text: Text) -> None:
    count = play_everything(stream_to(text, form="jsonl"))

    assert [entry["number"] for entry in text.entries] == list(range(1, count + 1))


def test_the_level_is_by_status(text: Text) -> None:
    stream = stream_to(text, form="jsonl")
    for status in Status:
        stream.response("a", status)
    levels: dict[str, set[str]] = {}
    for entry in text.entries:
        levels.setdefault(entry["level"], set()).add(entry["status"])

    assert levels == {
        "DEBUG": {"ACCEPTED", "PROGRESS"},
        "INFO": {"COMPLETED", "NEEDS_INPUT", "CANCELLED"},
        "WARNING": {"PARTIAL", "REJECTED_CAPABILITY", "REJECTED_CONTEXT", "REJECTED_OVERLOAD"},
        "ERROR": {"TIMEOUT", "FAILED_EXECUTION"},
    }


@pytest.mark.parametrize(
    ("event", "fields", "level"),
    [
        ("agent_up", {"agent": "ann"}, "INFO"),
        ("agent_down", {"agent": "ann", "reason": "stopped"}, "INFO"),
        ("agent_down", {"agent": "ann", "reason": "moves"}, "INFO"),
        ("agent_down", {"agent": "ann", "reason": "node_lost"}, "WARNING"),
        ("agent_down", {"agent": "ann", "reason": "not_taken"}, "WARNING"),
        ("agent_restarting", {"agent": "ann"}, "WARNING"),
        ("node_down", {"node": "far", "reason": "silent for 3.1 s"}, "WARNING"),
        ("dead_letter", {"number": 3, "reason": "late"}, "WARNING"),
        ("agent_state", {"agent": "ann", "number": 3}, "INFO"),
    ],
)
def test_the_level_of_an_event_is_by_what_it_means(text: Text, event: str, fields: dict[str, Any], level: str) -> None:
    stream_to(text, form="jsonl").event(event, **fields)
    entry = text.entries[0]

    assert (entry["level"], entry["event"], entry.get("reason")) == (level, event, fields.get("reason"))
    assert entry["number"] == 1
    assert entry.get("state" if event == "agent_state" else "letter") == fields.get("number")


def test_a_redelivered_part_of_other_work_says_so(text: Text) -> None:
    stream = stream_to(text, form="jsonl")
    stream.give(
        pack_envelope(
            Kind.DELEGATION,
            request_id=foreign_id("part"),
            parent=foreign_id("whole"),
            attempt=2,
            flags=Flag.REDELIVERED,
            body=b"\x80",
        )
    )
    entry = text.entries[0]

    assert (entry["parent"], entry["attempt"], entry["redelivered"]) == (request_id("whole"), 2, True)
    assert "timeout" not in entry


def test_the_line_of_a_dead_letter_names_it(text: Text) -> None:
    stream = stream_to(text)
    fields = {"number": 7, "reason": "late", "request_id": request_id("a"), "capability": "x.do", "node": ""}
    stream.event("dead_letter", **fields)

    assert f" WARNING #1 dead_letter x.do {request_id('a')} time=1000000 letter=7 reason=late " in text.lines[0]


def test_messages_below_the_level_are_left_out(text: Text) -> None:
    stream = stream_to(text, level=logging.WARNING)
    stream.work("a")
    stream.work("b", Status.TIMEOUT)

    assert [line.split()[1:4:2] for line in text.lines] == [["ERROR", "TIMEOUT"]]


def test_a_gap_is_a_line_with_the_numbers_that_were_missed(text: Text) -> None:
    stream = stream_to(text, level=logging.WARNING)
    stream.work("a")
    stream.loses(4)
    stream.work("b")

    assert [line.split(" ", 1)[1] for line in text.lines] == ["WARNING #3 GAP last=6 missed=4"]


def test_an_unreadable_body_is_a_line_too(text: Text) -> None:
    stream = stream_to(text, form="jsonl", bodies=True)
    stream.give(pack_envelope(Kind.RESPONSE, status=Status.COMPLETED, request_id=foreign_id("a"), body=b"\xc1"))

    assert text.entries[0]["unreadable"] is True
    assert text.entries[0]["body"].startswith("unreadable: The body is not msgpack")
    assert stream.observer.failures == 0


# -- secrets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_without_bodies_no_part_of_one_is_written(text: Text, form: str) -> None:
    play_everything(stream_to(text, form=form))

    assert SECRET not in text.getvalue()
    assert "exception" in text.getvalue()  # the code of an error is the bus's own word


def test_with_bodies_they_are_written(text: Text) -> None:
    stream = stream_to(text, form="jsonl", bodies=True)
    stream.delegation("a", params={"password": SECRET, "raw": b"\xff"})
    stream.response("a", data=["done"])
    stream.event("agent_restarting", reason=SECRET)
    bodies = [entry["body"] for entry in text.entries]

    assert json.loads(bodies[0])["params"] == {"password": SECRET, "raw": "b'\\xff'"}
    assert json.loads(bodies[1])["data"] == ["done"]
    assert json.loads(bodies[2])["reason"] == SECRET


def test_a_long_body_is_cut_and_says_by_how_much(text: Text) -> None:
    stream = stream_to(text, form="jsonl", bodies=True, body_limit=20)
    stream.response("a", data="x" * 100_000)

    assert text.entries[0]["body"] == '{"data": "xxxxxxxxxx… (+99,992)'


names = st.binary(max_size=60) | st.text(max_size=15).map(str.encode)


@given(names, names)
def test_no_name_can_forge_a_line(source: bytes, capability: bytes) -> None:
    text = Text()
    for form in ("text", "jsonl"):
        stream_to(text, form=form).give(
            pack_envelope(
                Kind.DELEGATION, request_id=foreign_id("a"), source=source, capability=capability, body=b"\x80"
            )
        )

    assert len(text.getvalue().splitlines()) == 2
    assert json.loads(text.lines[1])["from"] == source.decode(errors="replace")


# -- targets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_nothing_that_was_written_is_obeyed_by_a_terminal(text: Text, form: str) -> None:
    stream = stream_to(text, form=form, bodies=True, body_limit=5_000)
    hostile = HOSTILE.encode()[:200]
    stream.delegation("a", params={HOSTILE: HOSTILE}, objective=HOSTILE)
    stream.response("a", Status.FAILED_EXECUTION, summary=HOSTILE, error=ErrorInfo(code=HOSTILE, message=HOSTILE))
    stream.event(HOSTILE, agent=HOSTILE, node=HOSTILE, reason=HOSTILE, request_id=HOSTILE)
    stream.give(
        pack_envelope(
            Kind.RESPONSE, request_id=foreign_id("b"), source=hostile, target=hostile, capability=hostile, status=2
        )
    )

    assert obeyed(text.getvalue()) == []
    assert len(text.lines) == 4


def test_a_logger_gets_the_line_and_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ether.messages"):
        Stream(Log()).work("a", Status.FAILED_EXECUTION)

    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("ether.messages", "INFO"),
        ("ether.messages", "ERROR"),
    ]
    assert caplog.records[1].getMessage().startswith("#2 FAILED_EXECUTION ann -> user x.do ")
    assert caplog.records[1].ether["status"] == "FAILED_EXECUTION"  # type: ignore[attr-defined]


def test_a_loggers_own_level_counts(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("ether.test-of-levels")
    with caplog.at_level(logging.ERROR, logger.name):
        Stream(Log(logger, form="jsonl")).work("a", Status.TIMEOUT)

    assert [json.loads(record.getMessage())["status"] for record in caplog.records] == ["TIMEOUT"]


def test_a_stream_is_flushed_after_each_batch_and_left_open(text: Text) -> None:
    stream = stream_to(text)
    stream.work("a")
    stream.observer.guard(stream.observer.on_stop)

    assert text.flushes == 3
    assert not text.closed


def test_a_stream_that_raises_costs_the_line_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Text):
        def write(self, line: str, /) -> int:
            if "#1 " in line:
                raise BrokenPipeError
            return super().write(line)

    text = Broken()
    stream = stream_to(text)
    stream.work("a")

    assert stream.observer.failures == 1
    assert len(text.lines) == 1


@pytest.mark.parametrize("options", [{"form": "xml"}, {"body_limit": -1}, {"quiet": -1.0}])
def test_an_option_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        Log(io.StringIO(), **options)


# -- repetitions -----------------------------------------------------------------------------------------------


def test_what_says_the_same_is_written_once_in_a_while(text: Text) -> None:
    stream = stream_to(text, form="jsonl", quiet=10.0, level=logging.WARNING)
    for number in range(25):
        stream.response(str(number), Status.REJECTED_OVERLOAD)
        stream.passes(1.0)

    assert [(entry["number"], entry.get("repeated")) for entry in text.entries] == [(1, None), (11, 9), (21, 9)]
    stream.observer.on_stop()
    assert text.entries[-1]["repeated"] == 4
    assert sum(entry.get("repeated", 0) for entry in text.entries) + 3 == 25


def test_what_differs_is_no_repetition(text: Text) -> None:
    stream = stream_to(text, form="jsonl", quiet=10.0, level=logging.WARNING)
    stream.response("a", Status.TIMEOUT)
    stream.response("b", Status.REJECTED_OVERLOAD)
    stream.response("c", Status.TIMEOUT, by="bob")
    stream.response("d", Status.TIMEOUT, capability="x.undo")
    stream.response("e", Status.TIMEOUT, error=ErrorInfo(code="expired", message=""))
    stream.response("f", Status.TIMEOUT)

    assert [entry["number"] for entry in text.entries] == [1, 2, 3, 4, 5]


def test_the_memory_of_repetitions_is_bounded_and_loses_no_count(text: Text) -> None:
    stream = stream_to(text, form="jsonl", quiet=1e6)
    log: Any = stream.observer
    for number in range(3_000):
        stream.event("agent_up", agent=f"agent-{number}")
        stream.event("agent_up", agent=f"agent-{number}")

    assert len(log._repeats) == 1_024
    log.on_stop()
    assert sum(entry.get("repeated", 1) for entry in text.entries) == 6_000


def test_a_log_is_an_observer() -> None:
    assert issubclass(Log, Observer)
