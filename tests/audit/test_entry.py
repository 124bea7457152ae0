"""One envelope of a journal."""

from __future__ import annotations

import json

import pytest

from ether.audit.entry import AuditEntry
from ether_broker.envelope import payload
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.wire.frame import Flag, Kind, pack_envelope
from tests.audit.crew import WALL, entries_of, play

FIELDS = [
    "number", "time", "clock", "kind", "status", "event", "request_id", "parent", "from_agent", "to_agent", "capability",
    "attempt", "redelivered", "deadline", "size", "summary",
]  # fmt: skip


@pytest.fixture(scope="module")
def played() -> list[AuditEntry]:
    return entries_of(play())


def event(**body: object) -> AuditEntry:
    return AuditEntry(1, 0.0, 0.0, pack_envelope(Kind.EVENT, request_id=new_id(), source=b"ether", body=pack(body)))


def test_a_row_has_the_same_fields_for_every_kind_and_is_json(played: list[AuditEntry]) -> None:
    assert {tuple(entry.row()) for entry in played} == {tuple(FIELDS)}
    assert json.loads(json.dumps([entry.row() for entry in played])) == [entry.row() for entry in played]


def test_a_delegation_tells_its_route_and_its_aim(played: list[AuditEntry]) -> None:
    entry = next(entry for entry in played if entry.about_capability == "checker.check")
    row = entry.row()

    assert (entry.what, row["kind"], row["status"], row["event"]) == ("DELEGATION", "DELEGATION", None, None)
    assert (row["from_agent"], row["to_agent"], row["capability"]) == ("worker", "checker", "checker.check")
    assert row["parent"] != row["request_id"]
    assert row["time"] == row["clock"] + WALL
    assert row["deadline"] > row["clock"]
    assert row["summary"] == "Is the hole deep enough?"
    assert entry.whole()["body"]["params"] == {"photo": b"\x89PNG", "hours": 1}


@pytest.mark.parametrize(
    ("what", "summary"),
    [
        ("agent_up", "agent=desk node=desk version=0.1.0"),
        ("PROGRESS", "50% deep enough?"),
        ("FAILED_EXECUTION", "exception: ValueError: the spade \\x1b[31mbroke"),
        ("COMPLETED", "<4 bytes>"),
        ("ACCEPTED", ""),
    ],
)
def test_a_summary_says_the_most_telling_thing_in_a_line(played: list[AuditEntry], what: str, summary: str) -> None:
    assert next(entry.summary for entry in played if entry.what == what) == summary


def test_parameters_are_the_summary_where_no_aim_is_told(played: list[AuditEntry]) -> None:
    digs = [entry for entry in played if entry.about_capability == "worker.dig" and entry.kind_name == "DELEGATION"]
    assert [entry.summary for entry in digs] == ['{"hours": 1}', '{"hours": 2}']


def test_an_event_about_a_delegation_is_found_by_its_request_id() -> None:
    request_id = new_id()
    entry = event(event="reassigned", request_id=to_text(request_id), agent="worker-2", attempt=2, capability="a.b")

    assert entry.about == request_id
    assert entry.row()["request_id"] == to_text(request_id)
    assert entry.agents == {"ether", "worker-2"}
    assert entry.about_capability == "a.b"
    assert entry.summary == "agent=worker-2 attempt=2"


@pytest.mark.parametrize("request_id", [None, 7, "no uuid", b"x", ["a"]])
def test_an_event_with_an_odd_request_id_is_about_none(request_id: object) -> None:
    assert event(event="dead_letter", request_id=request_id).about is None


def test_a_dead_letter_says_why() -> None:
    assert event(event="dead_letter", number=3, reason="late", detail="it had ended").summary == "late: it had ended"


def test_a_manifest_does_not_fill_the_summary() -> None:
    entry = event(event="agent_up", agent="worker", manifest={"capabilities": [{"name": "x" * 1000}]})

    assert entry.summary == "agent=worker"
    assert entry.whole()["body"]["manifest"]["capabilities"]


def test_a_body_that_cannot_be_read_says_so() -> None:
    rubbish = AuditEntry(
        1, 0.0, 0.0, pack_envelope(Kind.DELEGATION, request_id=new_id(), capability=b"a.b", body=b"\xc1")
    )

    assert rubbish.summary.startswith("unreadable: ")
    assert list(rubbish.whole()["body"]) == ["unreadable"]
    assert rubbish.row()["capability"] == "a.b"


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x93\x01\x02\x03", b"\x81\x01\x02", b"\x81\xa5event\xc1"])
@pytest.mark.parametrize("kind", [Kind.EVENT, Kind.RESPONSE])
def test_whatever_the_bytes_are_an_entry_has_a_row(kind: Kind, body: bytes) -> None:
    entry = AuditEntry(1, 0.0, 0.0, pack_envelope(kind, request_id=new_id(), status=99, body=body))

    assert list(entry.row()) == FIELDS
    assert entry.what


def test_ctrl_c_while_a_body_is_read_is_no_body_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_value: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(payload, "thaw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asked(b"text.count", text="two words").row()


def test_flags_and_attempts_are_told() -> None:
    packed = pack_envelope(
        Kind.RESPONSE, request_id=new_id(), status=Status.COMPLETED, attempt=3, flags=Flag.REDELIVERED, body=pack({})
    )
    row = AuditEntry(1, 0.0, 0.0, packed).row()

    assert (row["attempt"], row["redelivered"]) == (3, True)


def asked(capability: bytes, **params: object) -> AuditEntry:
    body = pack({"params": pack(params)})
    return AuditEntry(
        1, 0.0, 0.0,
        pack_envelope(Kind.DELEGATION, request_id=new_id(), source=b"desk", capability=capability, body=body),
    )  # fmt: skip


@pytest.mark.parametrize("capability", [b"ether.publish", b"ether.event.orders.new"])
def test_a_published_event_is_read(capability: bytes) -> None:
    entry = asked(capability, topic="orders.new", data=pack({"price": 4, "raw": b"ab"}))

    assert entry.body["params"]["data"] == {"price": 4, "raw": b"ab"}
    assert '"data": {"price": 4, "raw": "<2 bytes>"}' in entry.summary
    assert asked(b"shop.sell", data=pack(4)).body["params"] == {"data": pack(4)}


def test_a_saved_state_is_read() -> None:
    assert event(event="agent_state", agent="tally", state=pack({"n": 1})).body["state"] == {"n": 1}


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91" * 400 + b"\x01", b"\xdd\x00\x02\x00\x00" + b"\x90" * 0x20000])
def test_what_cannot_be_read_within_bounds_stays_bytes(data: bytes) -> None:
    assert event(event="agent_state", state=data).body["state"] == data
