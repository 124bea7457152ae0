from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ether.cli.common.output import Format, Output, seconds
from ether.cli.common.table import Column

Capture = pytest.CaptureFixture[str]

COLUMNS = (
    Column("name", lambda row: row["name"]),
    Column("count", lambda row: row.get("count"), right=True),
)
ROWS: list[dict[str, Any]] = [{"name": "a", "count": 100}, {"name": "longer"}]


def test_text_is_a_table_that_can_be_split_at_blanks(capsys: Capture) -> None:
    Output().rows(ROWS, COLUMNS)

    assert capsys.readouterr().out == "NAME    COUNT\na         100\nlonger      -\n"


def test_json_is_one_document_and_jsonl_one_a_line(capsys: Capture) -> None:
    Output(Format.JSON).rows(ROWS, COLUMNS)
    assert json.loads(capsys.readouterr().out) == ROWS

    Output(Format.JSONL).rows(ROWS, COLUMNS)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


@pytest.mark.parametrize(("format_", "printed"), [(Format.TEXT, ""), (Format.JSON, "[]\n"), (Format.JSONL, "")])
def test_no_rows_are_an_empty_document(capsys: Capture, format_: Format, printed: str) -> None:
    Output(format_).rows([], COLUMNS)

    assert capsys.readouterr().out == printed


def test_notes_go_to_stderr_unless_it_is_to_be_quiet(capsys: Capture) -> None:
    Output().note("done")
    Output(quiet=True).note("nothing")

    assert capsys.readouterr() == ("", "done\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0.0, "0 µs"),
        (0.000_85, "850 µs"),
        (0.0123, "12.3 ms"),
        (3.21, "3.21 s"),
        (75.0, "75 s"),
        (4000.0, "4000 s"),
        (1e308, "1e+308 s"),
        (math.inf, "inf s"),
    ],
)
def test_durations_are_short(value: float | None, text: str | None) -> None:
    assert seconds(value) == text
