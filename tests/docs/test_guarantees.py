"""The guarantees name the tests that hold them; here those tests exist, and every guarantee has one."""

from __future__ import annotations

import re

from tests.support import REPOSITORY

GUARANTEES = (REPOSITORY / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROWS = {found[1]: row for row in GUARANTEES.splitlines() if (found := re.match(r"\| (G\d+) ", row))}


def test_every_guarantee_is_held_by_tests_that_exist():
    named = {guarantee: re.findall(r"`(tests/[\w/]+\.py)`", row) for guarantee, row in ROWS.items()}

    assert len(named) == 10
    for guarantee, files in named.items():
        assert files, f"{guarantee} names no test"
        for file in files:
            assert (REPOSITORY / file).is_file(), f"{guarantee} names {file}, which is not there"


def test_every_reason_and_code_of_the_broker_is_explained():
    from ether_broker.dead_letters import Reason
    from ether_broker.envelope.status import Status

    assert not [reason.value for reason in Reason if f"`{reason.value}`" not in GUARANTEES]
    assert not [status.name for status in Status if status.name not in GUARANTEES]
