from __future__ import annotations

import contextlib

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import new_id, to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, IncompatibleVersion, InvalidEnvelope, PayloadTooLarge
from ether_broker.wire.codec import (
    external_id,
    id_bytes,
    pack_delegation,
    pack_outcome,
    pack_plain_delegation,
    pack_response,
    plain_params,
    read_delegation,
    read_response,
)
from ether_broker.wire.frame import Header, Kind, pack_envelope, read_header
from tests.broker import strategies

pytestmark = pytest.mark.usefixtures("_either_msgpack")
REQUEST = "018f6b1e-0000-7000-8000-0000000000ff"
ids = st.uuids().map(str)


def delegations() -> st.SearchStrategy[Delegation]:
    made = strategies.delegations()
    return st.builds(
        lambda delegation, request, parent: delegation.model_copy(update={"request_id": request, "parent": parent}),
        made,
        ids,
        ids.filter(lambda text: int(text.replace("-", ""), 16) > 0),
    )


def responses() -> st.SearchStrategy[Response]:
    return st.builds(lambda made, request: made.model_copy(update={"request_id": request}), strategies.responses(), ids)


def body_of(fields: object, *, kind: Kind = Kind.DELEGATION, **header: object) -> tuple[Header, bytes]:
    known = {"capability": b"x.y", "source": b"ann", "request_id": id_bytes(REQUEST), **header}
    envelope = pack_envelope(kind, body=ormsgpack.packb(fields), **known)
    return read_header(envelope), envelope


@given(delegations())
def test_a_delegation_arrives_as_it_was_sent(delegation):
    envelope = pack_delegation(delegation, deadline=3.0)
    header = read_header(envelope)

    assert read_delegation(header, envelope) == delegation
    assert (header.kind, header.deadline, header.attempt) == (Kind.DELEGATION, 3.0, delegation.attempt)


@given(responses())
def test_a_response_arrives_as_it_was_sent(response):
    envelope = pack_response(response, capability=b"x.y", target=b"ann")
    header = read_header(envelope)

    assert read_response(header, envelope) == response
    assert (header.kind, header.status, header.target) == (Kind.RESPONSE, response.status.code, b"ann")


@given(strategies.bodies, st.floats(0, 1e6, exclude_min=True))
def test_an_outcome_packed_from_the_header_reads_as_the_response_that_it_stands_for(data, elapsed):
    header, _ = body_of({}, target=b"bo", attempt=3)

    envelope = pack_outcome(header, pack(data), elapsed=elapsed, timestamp=9.0)

    long_way = Response(
        request_id=REQUEST,
        status=Status.COMPLETED,
        from_agent="bo",
        data=data,
        elapsed=elapsed,
        attempt=3,
        timestamp=9.0,
    )
    assert read_response(read_header(envelope), envelope) == long_way
    assert read_header(envelope).target == b"ann"


def test_what_is_at_its_default_does_not_travel():
    bare = pack_delegation(Delegation(request_id=REQUEST, capability="x.y", from_agent="ann"))

    assert len(bare) == 48 + len("ann") + len("x.y") + len(ormsgpack.packb({}))


def test_an_id_that_is_no_uuid_is_refused_with_the_way_out():
    with pytest.raises(InvalidEnvelope, match=r"'dlg-1' is no UUID.*foreign_id"):
        pack_delegation(Delegation(request_id="dlg-1", capability="x.y"))


def test_an_envelope_may_have_just_as_many_bytes_as_the_limit():
    delegation = Delegation(request_id=REQUEST, capability="x.y", params=b"x" * 100)
    size = len(pack_delegation(delegation))

    assert len(pack_delegation(delegation, limit=size)) == size
    with pytest.raises(PayloadTooLarge) as raised:
        pack_delegation(delegation, limit=size - 1)
    assert (raised.value.size, raised.value.limit) == (size, size - 1)


def test_a_response_or_outcome_over_the_limit_is_refused():
    header, _ = body_of({})

    with pytest.raises(PayloadTooLarge):
        pack_response(Response(request_id=REQUEST, status=Status.COMPLETED, data=b"x" * 100), limit=100)
    with pytest.raises(PayloadTooLarge):
        pack_outcome(header, pack(b"x" * 100), elapsed=1.0, timestamp=1.0, limit=100)
    with pytest.raises(PayloadTooLarge):
        pack_plain_delegation(
            *(bytes(16), b"ann", b"", b"x.y", pack(b"x" * 100)),
            timeout=None,
            timestamp=1.0,
            deadline=1.0,
            limit=100,
        )


@given(strategies.bodies, st.none() | st.floats(0, 1e6, exclude_min=True), st.sampled_from([b"", b"bo"]))
def test_a_request_packed_without_a_model_reads_as_the_delegation_that_it_stands_for(params, timeout, target):
    payload = pack(params)

    envelope = pack_plain_delegation(
        *(id_bytes(REQUEST), b"ann", target, b"x.y", payload), timeout=timeout, timestamp=9.0, deadline=3.0
    )

    header = read_header(envelope)
    long_way = Delegation(
        request_id=REQUEST,
        capability="x.y",
        from_agent="ann",
        to_agent=target.decode() or None,
        params=params,
        timeout=timeout,
        timestamp=9.0,
    )
    assert read_delegation(header, envelope) == long_way
    assert (header.deadline, plain_params(header, envelope)) == (3.0, payload)


@given(delegations())
def test_plain_params_are_those_of_the_delegation_or_left_to_validation(delegation):
    envelope = pack_delegation(delegation)
    header = read_header(envelope)

    params = plain_params(header, envelope)

    assert params is None or params == delegation.params_payload.packed
    if delegation.context_sha256 is not None:
        assert params is None


@pytest.mark.parametrize(
    ("read", "fields"),
    [
        (read_delegation, {"timeout": -1.0}),
        (read_delegation, {"timeout": 0.0}),
        (read_delegation, {"timeout": float("nan")}),
        (read_delegation, {"timeout": "soon"}),
        (read_delegation, {"objective": 7}),
        (read_delegation, {"elapsed": 1.0}),
        (read_delegation, {"summary": "a response's"}),
        (read_delegation, {"unheard_of": 1}),
        (read_response, {"elapsed": -1.0}),
        (read_response, {"timeout": 1.0}),
        (read_response, {"objective": "a delegation's"}),
        (read_response, {"confidence": 2}),
        (read_response, []),
        (read_delegation, None),
    ],
)
def test_a_body_whose_fields_do_not_fit_is_invalid_however_plain_they_look(read, fields):
    header, envelope = body_of(fields, status=Status.COMPLETED)

    with pytest.raises(InvalidEnvelope):
        read(header, envelope)


def test_attempt_0_and_an_unknown_status_are_invalid():
    with pytest.raises(InvalidEnvelope, match="attempt"):
        read_delegation(*body_of({}, attempt=0))
    with pytest.raises(InvalidEnvelope, match="status"):
        read_response(*body_of({}, status=99))


@pytest.mark.parametrize("field", ["source", "target", "capability"])
def test_a_name_that_is_no_utf_8_is_invalid(field):
    with pytest.raises(InvalidEnvelope, match="UTF-8"):
        read_delegation(*body_of({}, **{field: b"\xff\xfe"}))
    if field == "source":
        with pytest.raises(InvalidEnvelope, match="UTF-8"):
            read_response(*body_of({}, status=Status.COMPLETED, source=b"\xff"))


def test_unknown_fields_of_a_newer_minor_schema_are_dropped_and_a_newer_major_is_refused():
    read = read_delegation(*body_of({"schema_version": "1.9", "unheard_of": 1, "objective": "aim"}))

    assert (read.objective, read.schema_version) == ("aim", "1.9")
    with pytest.raises(IncompatibleVersion):
        read_delegation(*body_of({"schema_version": "2.0"}))


@given(st.binary(max_size=60), st.sampled_from([read_delegation, read_response]), st.integers(0, 255))
def test_any_body_is_read_or_refused_with_our_own_errors(body, read, status):
    envelope = pack_envelope(
        Kind.RESPONSE, status=status, source=b"ann", capability=b"x.y", request_id=new_id(), body=body
    )

    with contextlib.suppress(EtherError):
        read(read_header(envelope), envelope)


@given(delegations(), st.data())
def test_a_mutated_envelope_is_read_or_refused_with_our_own_errors(delegation, data):
    envelope = bytearray(pack_delegation(delegation))
    for _ in range(data.draw(st.integers(1, 3))):
        envelope[data.draw(st.integers(48, len(envelope) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(EtherError):
        read_delegation(read_header(bytes(envelope)), bytes(envelope))


def test_an_id_has_its_canonical_text_whatever_form_it_came_in():
    assert id_bytes(REQUEST) == id_bytes(REQUEST.replace("-", "").upper())
    assert to_text(id_bytes(REQUEST)) == REQUEST


@pytest.mark.parametrize(
    ("name", "value"),
    [("parent", REQUEST), ("request_id", REQUEST), ("from_agent", "eve"), ("to_agent", "eve"), ("capability", "b.c"),
     ("attempt", 2), ("durability", "memory"), ("status", 2)],
)  # fmt: skip
def test_a_body_says_nothing_that_the_header_says(name, value):
    for kind, read in ((Kind.DELEGATION, read_delegation), (Kind.RESPONSE, read_response)):
        header, envelope = body_of({"timestamp": 1.0, name: value}, kind=kind, status=2 if kind is Kind.RESPONSE else 0)

        with pytest.raises(InvalidEnvelope, match=f"The body has {name}, which the header alone may say"):
            read(header, envelope)


@pytest.mark.parametrize(
    "bomb", [b"\xdd\x00\x04\x00\x00" + b"\x90" * 0x40000, b"\x91" * 900 + b"\xc0"], ids=["wide", "deep"]
)
def test_a_bomb_among_the_fields_of_an_envelope_is_refused(bomb: bytes):
    envelope = pack_envelope(
        Kind.RESPONSE, status=Status.COMPLETED, source=b"ann", capability=b"x.y", request_id=new_id(),
        body=b"\x81\xa8metadata\x81\xa1k" + bomb,
    )  # fmt: skip

    with pytest.raises(InvalidEnvelope, match=r"values, each map and list|maps and lists"):
        read_response(read_header(envelope), envelope)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (pack({"external_id": "task-7", "params": b"x" * 2_000}), "task-7"),
        (pack({"external_id": "ä" * 500}), "ä" * 500),
        (pack({"external_id": "t", **{f"key{number}": number for number in range(20)}}), "t"),
        (b"\xdf\x00\x00\x00\x01" + pack("external_id") + pack("t"), "t"),
        (pack({"params": b"", "external_id": "task-7"}), None),
        (pack({"external_id": "ä" * 501}), None),
        (pack({"external_id": 7}), None),
        (pack({"external_id": ["t"] * 100_000}), None),
        (pack({"external_id": "task-7"})[:-1], None),
        (pack({"external_id": ""})[:-1] + b"\xa1\xff", None),
        (pack("external_id"), None),
        (pack({}), None),
        (b"", None),
    ],
)
def test_of_a_delegation_nobody_else_reads_more_than_the_external_id_that_comes_first(body: bytes, found: str | None):
    envelope = pack_envelope(Kind.DELEGATION, request_id=bytes(16), source=b"a", body=body)

    assert external_id(read_header(envelope), envelope) == found


def test_the_external_id_comes_first_whatever_else_is_said():
    said = {
        "request_id": "018f6b1e-0000-7000-8000-000000000001", "capability": "x", "params": {"a": 1}, "objective": "o",
        "timestamp": 1.0, "timeout": 2.0, "budget": {"max_cost": 1.0}, "external_id": "task-7",
    }  # fmt: skip
    envelope = pack_delegation(Delegation.parse(said))

    assert external_id(read_header(envelope), envelope) == "task-7"
