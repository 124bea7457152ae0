"""What is tried again: a table of outcomes, and the bounds of every policy."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether import Backoff, Retry, Status
from ether_broker.envelope.response import ErrorInfo, Response
from ether_broker.errors import InvalidSpec
from tests.support import REPOSITORY

AT_ONCE = Backoff(initial=0.0)
CODES = [
    "", "agent_crash", "agent_down", "agent_restarted", "broker_lost", "broker_unreachable", "cancelled", "deadline",
    "exception", "expired", "mailbox_full", "misfit", "no_holder", "node_lost", "wrong_result",
]  # fmt: skip


def response(status: str, code: str = "", *, retryable: bool = False, retry_after: float | None = None) -> Response:
    error = ErrorInfo(code=code, message="m", retryable=retryable) if code else None
    return Response(request_id="r", status=status, error=error, retry_after=retry_after)


@pytest.mark.parametrize(
    ("status", "code", "retryable", "by_itself"),
    [
        ("COMPLETED", "", False, False),
        ("PARTIAL", "budget_exceeded", False, False),
        ("NEEDS_INPUT", "", False, False),
        ("REJECTED_OVERLOAD", "mailbox_full", True, True),
        ("REJECTED_OVERLOAD", "", False, True),
        ("REJECTED_CAPABILITY", "agent_down", True, True),
        ("REJECTED_CAPABILITY", "no_holder", False, False),
        ("REJECTED_CONTEXT", "misfit", False, False),
        ("TIMEOUT", "expired", True, True),
        ("TIMEOUT", "deadline", True, False),
        ("TIMEOUT", "broker_unreachable", True, False),
        ("FAILED_EXECUTION", "agent_crash", True, False),
        ("FAILED_EXECUTION", "lease_lost", True, False),
        ("FAILED_EXECUTION", "exception", True, True),
        ("PARTIAL", "budget_exceeded", True, False),
        ("REJECTED_CONTEXT", "misfit", True, False),
        ("FAILED_EXECUTION", "agent_restarted", True, False),
        ("FAILED_EXECUTION", "node_lost", True, False),
        ("FAILED_EXECUTION", "broker_lost", True, False),
        ("FAILED_EXECUTION", "exception", False, False),
        ("CANCELLED", "closed", True, False),
    ],
)
def test_what_is_tried_again_by_itself_and_what_only_when_asked(
    status: str, code: str, retryable: bool, by_itself: bool
) -> None:
    outcome = response(status, code, retryable=retryable)

    assert (Retry(backoff=AT_ONCE).delay(outcome, 1, 9.0, Random()) is not None) is by_itself
    for named in {status, code} - {"", "COMPLETED", "CANCELLED"}:
        asked = Retry(backoff=AT_ONCE, on={named}).delay(outcome, 1, 9.0, Random()) is not None
        assert asked is (status not in {"COMPLETED", "CANCELLED"})


@given(
    status=st.sampled_from(Status), code=st.sampled_from(CODES), retryable=st.booleans(),
    after=st.none() | st.floats(0, 100), attempt=st.integers(1, 120), left=st.floats(0, 1e6), most=st.integers(1, 100),
    on=st.sets(st.sampled_from([*filter(None, CODES), "TIMEOUT"])), initial=st.floats(0, 10), factor=st.floats(1, 5),
)  # fmt: skip
def test_no_attempt_is_beyond_the_bounds(
    *, status: Any, code: str, retryable: Any, after: Any, attempt: int, left: float, most: int, on: Any, initial: Any,
    factor: Any,
) -> None:  # fmt: skip
    policy = Retry(attempts=most, backoff=Backoff(initial=initial, factor=factor, maximum=max(initial, 30.0)), on=on)

    delay = policy.delay(response(status, code, retryable=retryable, retry_after=after), attempt, left, Random(1))

    if delay is not None:
        assert attempt < most
        assert 0.0 <= delay < left
        assert delay >= (after or 0.0)
        assert status not in {Status.COMPLETED, Status.CANCELLED, Status.ACCEPTED, Status.PROGRESS}
        perhaps_done = {"agent_crash", "agent_restarted", "broker_lost", "lease_lost", "node_lost"}
        assert status in on or code in on or status is Status.REJECTED_OVERLOAD or code not in perhaps_done


def test_the_delays_grow_and_are_no_shorter_than_the_bus_says() -> None:
    policy = Retry(attempts=5, backoff=Backoff(initial=0.5, factor=2.0, maximum=1.5, jitter=0.0))
    full = response("REJECTED_OVERLOAD")

    assert [policy.delay(full, n, 9.0, Random()) for n in range(1, 6)] == [0.5, 1.0, 1.5, 1.5, None]
    assert policy.delay(response("REJECTED_OVERLOAD", retry_after=4.0), 1, 9.0, Random()) == 4.0
    assert policy.delay(response("REJECTED_OVERLOAD", retry_after=9.0), 1, 9.0, Random()) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"attempts": 0}, "attempts is 0; give a whole number of attempts, 1 to 100"),
        ({"attempts": 1.5}, "attempts is 1.5"),
        ({"attempts": 101}, "attempts is 101"),
        ({"attempts": "3"}, "attempts is '3'"),
        ({"timeout": 0}, "timeout is 0; give seconds above 0, or None"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": True}, "timeout is True"),
        ({"backoff": 1.0}, r"backoff is 1.0; give a Backoff, as in Backoff\(initial=0.5\)"),
        ({"on": "TIMEOUT"}, "on is 'TIMEOUT'; give a set of words"),
        ({"on": None}, "on is None; give a set of words"),
        ({"on": {7}}, r"on is \{7\}; give a set of words"),
        ({"on": {"TIMEOOT"}}, r"on has 'TIMEOOT', which is no failure. Did you mean 'TIMEOUT'\?"),
        ({"on": {"completed"}}, r"on has .completed., which is no failure"),
        ({"on": {"exeption"}}, r"on has 'exeption', which is no code. Did you mean 'exception'\?"),
        (
            {"on": {"broker_unavailible"}},
            r"on has 'broker_unavailible', which is no code. Did you mean 'broker_unavailable'\?",
        ),
        ({"on": {"timeout"}}, r"on has 'timeout', which is no code. Did you mean 'TIMEOUT'\?"),
        ({"on": {"time_out"}}, r"on has 'time_out', which is no code. Did you mean 'TIMEOUT'\?"),
        ({"on": {"failedexecution"}}, r"on has 'failedexecution', .* Did you mean 'FAILED_EXECUTION'\?"),
        (
            {"on": {"ConnectionError"}},
            "on has 'ConnectionError', which is no code. Of an exception in a handler the code is",
        ),
        ({"on": {"COMPLETED"}}, "on has 'COMPLETED', which is no failure. Known: FAILED_EXECUTION"),
        ({"on": {Status.CANCELLED}}, "on has 'CANCELLED', which is no failure"),
    ],
)
def test_a_policy_that_cannot_be_says_what_would(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec, match=f"Retry: {said}"):
        Retry(**given)


def test_an_agents_own_code_is_taken() -> None:
    policy = Retry(on={"rate_limited_by_vendor"}, backoff=AT_ONCE)

    assert policy.delay(response("FAILED_EXECUTION", "rate_limited_by_vendor"), 1, 9.0, Random()) == 0.0


def test_every_code_of_the_guarantees_can_be_named() -> None:
    """A code of the bus's own must not be taken for a misspelt other."""
    guarantees = (REPOSITORY / "docs" / "guarantees.md").read_text(encoding="utf-8")
    rows = [
        row
        for row in guarantees.splitlines()
        if row.startswith("|") and any(f"| {status} |" in row for status in Status)
    ]
    codes = {code for row in rows for code in re.findall(r"`([a-z]+(?:_[a-z]+)*)`", row.split("|")[3])}

    assert {"exception", "node_lost", "agent_crash", "mailbox_full", "expired"} <= codes
    assert Retry(on=codes).on == codes
