"""Observers and observations, without a bus."""

from __future__ import annotations

import logging

import pytest

from ether_actors.observers.observer import Observation, Observer
from ether_actors.observers.probe import Probe
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import pack
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import InvalidEnvelope, UsageError
from ether_broker.tap import ReadBatch
from ether_broker.wire.codec import pack_delegation, pack_response
from ether_broker.wire.frame import Kind, pack_envelope

REQUEST = to_text(bytes(15) + b"\1")
ASK = pack_delegation(
    Delegation(request_id=REQUEST, capability="x.y", from_agent="d", to_agent="a", params={"n": 1}), deadline=9.0
)
ANSWER = pack_response(
    Response(request_id=REQUEST, status=Status.COMPLETED, from_agent="a", data=2), capability=b"x.y", target=b"d"
)
HAPPENED = pack_envelope(Kind.EVENT, source=b"ether", body=pack({"event": "agent_up", "agent": "a"}))


def batch(first: int, *envelopes: bytes, covers: int | None = None) -> ReadBatch:
    count = len(envelopes) if covers is None else covers
    return ReadBatch(first, first + count, [(first + index, 5.0, one) for index, one in enumerate(envelopes)])


class Recorder(Observer):
    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_delegation(self, observation: Observation) -> None:
        self.seen.append(("delegation", observation.number))

    def on_response(self, observation: Observation) -> None:
        self.seen.append(("response", observation.number))

    def on_event(self, observation: Observation) -> None:
        self.seen.append(("event", observation.number))

    def on_gap(self, first: int, last: int) -> None:
        self.seen.append(("gap", first, last))


def test_each_message_goes_to_the_method_of_its_kind_in_order():
    recorder = Recorder()

    recorder.observe(batch(1, ASK, HAPPENED, ANSWER))

    assert recorder.seen == [("delegation", 1), ("event", 2), ("response", 3)]
    assert recorder.position == 4


def test_a_gap_is_told_with_the_numbers_that_were_missed():
    recorder = Recorder()
    recorder.observe(batch(1, ASK))

    recorder.observe(batch(5, ANSWER))
    recorder.observe(batch(6, ANSWER))

    assert recorder.seen == [("delegation", 1), ("gap", 2, 4), ("response", 5), ("response", 6)]
    assert recorder.missed == 3


def test_what_an_observer_did_not_ask_for_is_no_gap():
    recorder = Recorder()
    recorder.observe(batch(1, covers=4))

    recorder.observe(batch(5, ASK))

    assert (recorder.seen, recorder.missed) == ([("delegation", 5)], 0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_observer_that_raises_is_logged_counted_and_gets_the_next_message(error: type[BaseException], caplog):
    class Broken(Observer):
        calls = 0

        def on_message(self, observation: Observation) -> None:
            self.calls += 1
            raise error("boom")

        def on_gap(self, first: int, last: int) -> None:
            raise error("boom")

    broken = Broken()
    with caplog.at_level(logging.ERROR, "ether.observer"):
        broken.observe(batch(1, ASK, ANSWER))
        broken.observe(batch(9, ASK))

    assert (broken.calls, broken.failures, broken.position) == (3, 4, 10)
    assert "boom" in caplog.text


def test_failures_are_logged_ever_more_seldom(caplog):
    class Broken(Observer):
        def on_message(self, observation: Observation) -> None:
            raise ValueError

    with caplog.at_level(logging.ERROR, "ether.observer"):
        Broken().observe(batch(1, *[ASK] * 100))

    assert len(caplog.records) == 7  # 1, 2, 4, … 64


def test_a_message_that_is_no_envelope_breaks_nothing():
    recorder = Recorder()

    recorder.observe(batch(1, b"junk", ASK))

    assert (recorder.seen, recorder.failures) == ([("delegation", 2)], 1)


def test_the_parts_of_an_observation_are_read_when_asked_for():
    ask, answer, event = (Observation(n, 5.0, envelope) for n, envelope in enumerate((ASK, ANSWER, HAPPENED), 1))

    assert (ask.kind, ask.request_id, ask.capability, ask.from_agent, ask.to_agent) == (
        Kind.DELEGATION,
        REQUEST,
        "x.y",
        "d",
        "a",
    )
    assert ask.delegation.params == {"n": 1}
    assert (answer.response.status, answer.response.data) == (Status.COMPLETED, 2)
    assert event.event == {"event": "agent_up", "agent": "a"}
    assert "DELEGATION x.y" in repr(ask)


def test_a_body_that_is_none_is_an_error_only_for_who_reads_it():
    observation = Observation(1, 5.0, pack_envelope(Kind.DELEGATION, capability=b"x.y", body=b"\xc1"))

    with pytest.raises(InvalidEnvelope):
        observation.delegation


# -- the probe ---------------------------------------------------------------------------------------------------


def probed(*envelopes: bytes) -> Probe:
    probe = Probe()
    probe.observe(batch(1, *envelopes))
    return probe


def test_a_probe_records_everything_by_kind():
    probe = probed(ASK, HAPPENED, ANSWER)

    assert [len(found) for found in (probe.observations, probe.delegations, probe.responses, probe.events)] == [
        3,
        1,
        1,
        1,
    ]
    assert probe.sequence() == ["d → a: x.y", "a → d: x.y COMPLETED"]
    assert probe.sequence(kind=Kind.EVENT) == ["agent_up a"]


def test_a_probe_finds_by_every_filter():
    probe = probed(ASK, HAPPENED, ANSWER)

    for wanted in (
        {"status": Status.COMPLETED},
        {"capability": "x.y", "from_agent": "a"},
        {"to_agent": "d"},
        {"kind": Kind.RESPONSE, "request_id": REQUEST},
        {"where": lambda observation: observation.number == 3},
    ):
        assert [found.number for found in probe.find(**wanted)] == [3]
    assert [found.number for found in probe.find(event="agent_up")] == [2]
    assert probe.find(status=Status.TIMEOUT) == []


def test_an_unknown_filter_is_named_with_those_that_there_are():
    with pytest.raises(TypeError, match="'stauts'; it knows kind, status"):
        Probe().find(stauts=Status.COMPLETED)


def test_a_status_is_taken_by_its_name_and_one_that_there_is_none_of_is_told():
    assert probed(ASK, ANSWER).expect(timeout=0.0, status="COMPLETED").number == 2
    with pytest.raises(UsageError, match=r"no status 'COMPLETD'\. Did you mean 'COMPLETED'"):
        Probe().find(status="COMPLETD")


def test_each_message_is_expected_once():
    probe = probed(ANSWER, ANSWER)

    assert [probe.expect(status=Status.COMPLETED).number for _ in range(2)] == [1, 2]
    with pytest.raises(AssertionError, match=r"No message with status=COMPLETED passed(.|\n)*1 a → d: x\.y COMPLETED"):
        probe.expect(timeout=0.0, status=Status.COMPLETED)


def test_nothing_that_passed_is_said_so():
    with pytest.raises(AssertionError, match="nothing"):
        Probe().expect(timeout=0.0)


def test_a_probe_is_told_gaps_and_forgets_on_request():
    probe = probed(ASK)
    probe.observe(batch(7, ASK))
    assert probe.gaps == [(2, 6)]

    probe.clear()

    assert (probe.observations, probe.gaps) == ([], [])


def test_a_probe_runs_a_bus_that_only_moves_when_told_to():
    probe = Probe()
    probe.step = lambda: probe.observe(batch(1, ANSWER)) if not probe._seen else None

    assert probe.expect(status=Status.COMPLETED).number == 1
