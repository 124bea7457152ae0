"""What `delegate` takes is where people look for it."""

from __future__ import annotations

import re

from ether import Runtime
from ether.cli.app import _COMMANDS
from ether_actors.delegator.options import DelegateOptions
from ether_broker.envelope.fields import DelegationFields
from tests.support import REPOSITORY

DOCS = REPOSITORY / "docs"


def test_each_keyword_of_delegate_is_in_the_table_and_in_its_help() -> None:
    section = (DOCS / "agents.md").read_text().partition("## Fields of a delegation")[2].partition("\n## ")[0]
    rows = {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}

    assert rows == {"to", *DelegateOptions.__annotations__}
    assert set(re.findall(r"`(\w+)`", Runtime.delegate.__doc__ or "")) >= set(DelegationFields.__annotations__)


def test_each_command_is_in_the_table() -> None:
    table = (DOCS / "cli.md").read_text().partition("The examples are about")[0]

    assert set(re.findall(r"\[`([\w-]+)`\]", table)) == set(_COMMANDS)
