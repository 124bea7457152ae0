from __future__ import annotations

from pathlib import Path

import pytest

from ether.lab.torture.history.log import LogWriter, read_log
from ether_broker.errors import UsageError


def test_a_line_is_in_the_file_when_write_returns(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "deep" / "a.jsonl")
    at = log.write("invoke", id="x")

    assert read_log(tmp_path / "deep" / "a.jsonl") == [{"event": "invoke", "at": at, "id": "x"}]
    log.close()


def test_the_next_life_goes_on_behind_a_line_that_a_kill_has_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"event":"life","at":1.0}\n{"event":"inv')

    log = LogWriter(path)
    log.write("life")
    log.close()

    assert [line["event"] for line in read_log(path)] == ["life", "life"]


def test_what_is_no_line_of_a_log_is_refused_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"event":"life","at":1.0}\n{"id":"x"}\n')

    with pytest.raises(UsageError, match=r"a\.jsonl:2"):
        read_log(path)
