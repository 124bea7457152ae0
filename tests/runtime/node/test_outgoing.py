"""What a node does with delegations whose broker says nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ether.node.delegations.outgoing import OutgoingDelegations
from ether_actors.delegator.handle import Handle
from ether_actors.execution.due_calls import DueCalls
from ether_broker.envelope.payload import MAX_PAYLOAD, pack
from ether_broker.envelope.status import Status
from ether_broker.timing import DEFAULT_TIMING

START = 100.0


class Silence:
    """A node on a clock of its own, whose link swallows everything."""

    def __init__(self) -> None:
        self.now = START
        resources: Any = SimpleNamespace(
            wait=None, take=None, take_in_loop=None, handle_type=Handle, make_id=lambda: bytes(16),
            monotonic=lambda: self.now, wall=lambda: 0.0,
        )  # fmt: skip
        link = SimpleNamespace(call=lambda call: call())
        sender: Any = SimpleNamespace(
            link=link, last_words=[], flush=lambda: None, send=lambda _envelope, *, more_follows, is_new: None
        )
        session_state: Any = SimpleNamespace(
            is_draining=False,
            default_timeout=60.0,
            limit=MAX_PAYLOAD,
            journal="",
            timing=DEFAULT_TIMING,
            trouble="",
            is_heard=lambda _now: True,
        )
        self.session_state = session_state
        self.outgoing = OutgoingDelegations(
            "d", sender, resources, session_state, SimpleNamespace(offset=0.0), DueCalls().add
        )  # type: ignore[arg-type]  # as much of it as is used

    def beat_until(self, end: float) -> None:
        """Look for what is overdue each second."""
        while self.now < end:
            self.now += 1.0
            self.outgoing.end_overdue(self.now)


@pytest.fixture
def silence() -> Silence:
    return Silence()


def test_what_the_supervisor_does_not_end_is_ended_here(silence: Silence) -> None:
    handle = silence.outgoing.delegate_plain(None, "x.y", pack({}), 5.0)

    silence.beat_until(START + 7.0)
    assert not handle.done
    silence.beat_until(START + 8.0)

    outcome = handle.outcome()
    assert outcome.status is Status.TIMEOUT
    assert outcome.error is not None
    assert outcome.error.code == "broker_unreachable"


def test_what_waits_for_the_disk_of_a_broker_that_is_there_is_told_so(silence: Silence) -> None:
    handle = silence.outgoing.delegate_plain(None, "x.y", pack({}), 5.0)
    silence.session_state.trouble = "The disk is full."

    silence.beat_until(START + 8.0)

    outcome = handle.outcome()
    assert outcome.status is Status.TIMEOUT
    assert outcome.error is not None
    assert outcome.error.code == "journal_unavailable"
    assert "The disk is full." in outcome.error.message


def test_a_broker_that_was_in_trouble_and_is_silent_is_out_of_reach(silence: Silence) -> None:
    handle = silence.outgoing.delegate_plain(None, "x.y", pack({}), 5.0)
    silence.session_state.trouble, silence.session_state.is_heard = "The disk is full.", lambda _now: False

    silence.beat_until(START + 8.0)

    error = handle.outcome().error
    assert error is not None
    assert error.code == "broker_unreachable"


def test_a_node_that_stood_still_reads_what_came_before_it_judges(silence: Silence) -> None:
    handle = silence.outgoing.delegate_plain(None, "x.y", pack({}), 5.0)
    silence.beat_until(START + 4.0)

    silence.now += 20.0
    silence.outgoing.end_overdue(silence.now)
    assert not handle.done

    silence.beat_until(silence.now + 1.0)
    assert handle.done


def test_a_node_that_is_late_each_time_judges_all_the_same(silence: Silence) -> None:
    handle = silence.outgoing.delegate_plain(None, "x.y", pack({}), 5.0)
    silence.beat_until(START + 4.0)

    for _ in range(2):
        silence.now += 20.0
        silence.outgoing.end_overdue(silence.now)

    assert handle.done


def test_a_timeout_without_end_has_one(silence: Silence) -> None:
    handle = silence.outgoing.delegate_plain(None, "x.y", pack({}), float("inf"))

    assert handle.deadline < float("inf")


def test_a_handle_of_a_request_that_goes_on_ends_at_its_own_timeout(silence: Silence) -> None:
    first = silence.outgoing.delegate_plain(None, "x.y", pack({}), 20.0)  # of one id, as all here
    second = silence.outgoing.delegate_plain(None, "x.y", pack({}), 1.0)  # of one id, as all here

    silence.beat_until(START + 2.0)

    assert second.outcome().status is Status.TIMEOUT
    assert not first.done
