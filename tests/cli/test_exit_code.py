from __future__ import annotations

import re

import pytest

from ether.cli.common import exit_code
from ether.cli.common.exit_code import ExitCode, code_of_error, code_of_status
from ether_broker import errors
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from tests.support import REPOSITORY

ROW = re.compile(r"^\s*\|?\s*(\d+)\s+\|?\s*`?([A-Z]+)`?\s", re.MULTILINE)


def rows(text: str) -> dict[str, int]:
    return {name: int(number) for number, name in ROW.findall(text)}


def test_the_docstring_is_the_table() -> None:
    assert rows(exit_code.__doc__ or "") == {code.name: code.value for code in ExitCode}


def test_the_documentation_has_the_same_table() -> None:
    text = (REPOSITORY / "docs" / "cli.md").read_text(encoding="utf-8")

    assert rows(text) == {code.name: code.value for code in ExitCode}


def test_every_terminal_status_has_a_code_and_only_completed_is_0() -> None:
    codes = {status: code_of_status(status) for status in Status if status.is_terminal}

    assert [status for status, code in codes.items() if code is ExitCode.OK] == [Status.COMPLETED]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), ExitCode.USAGE),
        (errors.InvalidSpec("x"), ExitCode.USAGE),
        (errors.UnknownDeadLetter("x"), ExitCode.USAGE),
        (errors.BrokerUnavailable("x"), ExitCode.UNAVAILABLE),
        (errors.AddressInUse("x"), ExitCode.UNAVAILABLE),
        (errors.WaitTimeout("x"), ExitCode.TIMEOUT),
        (errors.IncompatibleVersion("x"), ExitCode.INCOMPATIBLE),
        (errors.InternalError("x"), ExitCode.SOFTWARE),
        (errors.Closed("x"), ExitCode.FAILED),
        (OSError("x"), ExitCode.FAILED),
    ],
)
def test_an_error_has_the_code_of_its_kind(error: BaseException, code: ExitCode) -> None:
    assert code_of_error(error) is code


@pytest.mark.parametrize(
    "status", [status for status in Status if status.is_terminal and status is not Status.COMPLETED]
)
def test_an_outcome_that_was_raised_has_the_code_of_its_status(status: Status) -> None:
    response = Response(request_id="00000000-0000-7000-8000-000000000000", status=status)

    with pytest.raises(errors.OutcomeError) as raised:
        response.unwrap()

    assert code_of_error(raised.value) is code_of_status(status)
