"""A request that is sent again by its id, and ids in the forms in which users have them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from ether import Agent, InvalidEnvelope, Runtime, Status, capability
from ether.testing import TestRuntime
from ether.views import foreign_id


class Counter(Agent):
    """Says how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @capability("count.up")
    def up(self, by: int = 1) -> int:
        self.count += by
        return self.count

    @capability("count.down")
    def down(self) -> int:
        self.count -= 1
        return self.count


@pytest.fixture
def bus():
    with TestRuntime(name="desk") as bus:
        bus.start(Counter)
        yield bus


def test_what_a_handle_says_of_its_request_is_text(bus: TestRuntime):
    handle = bus.delegate("count.up")

    assert (handle.request_id, handle.source, handle.capability) == (handle.id, "desk", "count.up")
    assert handle.result().request_id == handle.request_id == handle.delegation.request_id


def test_a_request_is_sent_again_by_what_its_handle_says(bus: TestRuntime):
    first = bus.delegate("count.up")
    first.result()

    again = bus.delegate("count.up", request_id=first.request_id)

    assert (again.result().data, bus.delegate("count.up").result().data) == (1, 2)


@pytest.mark.parametrize("chosen", [uuid.uuid4(), foreign_id("task-7")])
def test_an_id_of_ones_own_is_a_uuid_or_made_of_any_text(bus: TestRuntime, chosen: object):
    answers = [bus.delegate("count.up", request_id=chosen).result() for _ in range(2)]

    assert [(answer.data, answer.request_id) for answer in answers] == [(1, str(chosen))] * 2


@pytest.mark.parametrize("field", ["request_id", "parent"])
def test_an_id_that_is_none_is_told_with_its_field_and_a_function_that_is_there(bus: TestRuntime, field: str):
    with pytest.raises(InvalidEnvelope, match=rf"^{field} 'task-7' is no UUID.* ether\.views\.foreign_id") as caught:
        bus.delegate("count.up", **{field: "task-7"})

    import ether.views

    assert "foreign_id" in str(caught.value)
    assert ether.views.foreign_id("task-7") == foreign_id("task-7")


def test_outcomes_are_collected_by_what_their_handles_said(tmp_path: Path):
    with Runtime(journal=tmp_path / "journal.db", name="desk") as bus:
        bus.start(Counter)
        first, second = bus.delegate("count.up", {"by": 5}), bus.delegate("count.up", {"by": 5})
        assert [first.result().data, second.result().data] == [5, 10]

    with Runtime(journal=tmp_path / "journal.db", name="desk") as again:
        taken = again.collect([first.request_id, uuid.UUID(second.request_id)])
        assert [handle.result(10.0).data for handle in taken] == [5, 10]
        with pytest.raises(InvalidEnvelope, match="'task-7' is no UUID"):
            again.collect(["task-7"])


@pytest.mark.parametrize("is_over", [True, False])
def test_an_id_that_stands_for_another_capability_is_refused_with_its_name(bus: TestRuntime, is_over: bool):
    first = bus.delegate("count.up")
    if is_over:
        first.result()

    other = bus.delegate("count.down", request_id=first.request_id).result()

    assert (other.status, other.error.code) == (Status.REJECTED_CONTEXT, "duplicate_request")
    assert "count.up" in other.error.message
    assert first.result().data == 1
