"""The guarantees name the tests that hold them; here those tests exist, and every guarantee has one."""

from __future__ import annotations

import ast
import re

from ether_actors.delegator import retry
from tests.docs.glossary import sources
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


GIVES_AN_OUTCOME = {"ErrorInfo", "Rejection", "_end", "_reject", "rule"}
"""What is called with the code of an outcome."""


def test_every_code_that_the_bus_gives_is_explained_and_may_be_retried():
    given = {
        said.value: f"{module}:{node.lineno}"
        for module, source in sources().items()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in GIVES_AN_OUTCOME
        for argument in (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "code"))
        for said in ast.walk(argument)
        if isinstance(said, ast.Constant)
        and isinstance(said.value, str)
        and re.fullmatch(r"[a-z]{3,}(_[a-z]+)*", said.value)
    }

    assert len(given) > 20
    assert {code: where for code, where in given.items() if code not in retry._CODES} == {}
    assert [code for code in sorted(retry._CODES) if f"`{code}`" not in GUARANTEES] == []
