from __future__ import annotations

import pytest

from ether_broker.envelope.status import AgentStatus, Status

RUNNING, REFUSED, ENDED = "running", "refused", "ended"

TABLE = [
    (1, "ACCEPTED", RUNNING, "partial"),
    (2, "COMPLETED", ENDED, "success"),
    (3, "REJECTED_CAPABILITY", REFUSED, "error"),
    (4, "REJECTED_CONTEXT", REFUSED, "error"),
    (5, "TIMEOUT", ENDED, "error"),
    (6, "FAILED_EXECUTION", ENDED, "error"),
    (7, "PROGRESS", RUNNING, "partial"),
    (8, "PARTIAL", ENDED, "partial"),
    (9, "NEEDS_INPUT", ENDED, "partial"),
    (10, "REJECTED_OVERLOAD", REFUSED, "error"),
    (11, "CANCELLED", ENDED, "error"),
]


def test_the_table_has_every_status():
    assert [(number, name) for number, name, _, _ in TABLE] == [(item.code, item.value) for item in Status]


@pytest.mark.parametrize(("number", "name", "kind", "word"), TABLE)
def test_each_status_is_what_the_table_says(number: int, name: str, kind: str, word: str):
    status = Status.of_code(number)

    assert status == status.name == str(status) == f"{status}" == name
    assert Status(name) is Status(number) is status  # a document may have either
    assert status.is_terminal is (kind != RUNNING)
    assert status.is_rejection is (kind == REFUSED)
    assert status.agent_status is AgentStatus(word)


@pytest.mark.parametrize("word", AgentStatus)
def test_a_word_of_spec_1_and_its_status_mean_each_other(word: AgentStatus):
    assert Status.of_agent_status(word).agent_status is word


def test_a_number_fits_the_status_byte_and_0_is_none():
    assert all(0 < status.code < 256 for status in Status)
    with pytest.raises(ValueError, match="0 is no status code"):
        Status.of_code(0)
