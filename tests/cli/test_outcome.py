from __future__ import annotations

import pytest

from ether.cli.bus.outcome import print_outcome, record
from ether.cli.common.output import Output
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status

ID = "00000000-0000-7000-8000-000000000000"


def test_an_overloaded_bus_says_when_to_try_again(capsys: pytest.CaptureFixture[str]) -> None:
    response = Response(request_id=ID, status=Status.REJECTED_OVERLOAD, from_agent="ether", retry_after=1.5)

    print_outcome(response, Output())

    assert capsys.readouterr() == ("", "ether: REJECTED_OVERLOAD by ether\n  try again in 1.5 s\n")


def test_a_summary_is_told_beside_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    response = Response.parse(
        {"request_id": ID, "status": 2, "from_agent": "a", "summary": "Booked.", "data": [1], "elapsed": 0.25}
    )

    print_outcome(response, Output())

    assert capsys.readouterr() == ("[\n  1\n]\n", "COMPLETED by a in 250 ms: Booked.\n")


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.PARTIAL])
def test_artifacts_are_told_with_their_path_and_size(capsys: pytest.CaptureFixture[str], status: Status) -> None:
    artifacts = ({"path": "/notes/a\n.md", "size": 1_500}, {"path": "b.md"})
    print_outcome(Response.parse({"request_id": ID, "status": status.code, "artifacts": artifacts}), Output())

    assert capsys.readouterr().err.splitlines()[-2:] == ["  artifact: /notes/a .md, 1,500 bytes", "  artifact: b.md"]


def test_a_record_begins_with_what_it_is_and_has_data_even_without_any() -> None:
    response = Response(request_id=ID, status=Status.COMPLETED)

    assert list(record(response).items()) == [("request_id", ID), ("status", "COMPLETED"), ("data", None)]


def test_numbers_that_json_has_not_are_null() -> None:
    response = Response.parse({"request_id": ID, "status": 2, "data": {"ratio": float("nan")}})

    assert record(response)["data"] == {"ratio": None}
