"""What a type checker knows of `delegate` and `respond`."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.fields import DelegationFields, ResponseFields
from ether_broker.envelope.model import Model
from ether_broker.envelope.response import Response
from tests.support import REPOSITORY

DELEGATE = {"capability", "params", "to_agent", "timeout", "budget", "objective", "context_slice"}
"""Fields that `delegate` has arguments of its own for."""
OF_THE_BUS = {"from_agent", "context_sha256", "attempt", "timestamp", "schema_version", "request_id", "external_id"}
"""Fields that nobody has to say."""
RESPOND = {"status", "data", "progress", "elapsed"}

PROGRAM = """
import ether, uuid

class Writer(ether.Agent):
    @ether.capability("text.write")
    def write(self, task: ether.Task) -> ether.Response:
        task.delegate("text.read", permisions={})
        return task.respond(data=1, sumary="typo")

with ether.Runtime() as bus:
    bus.delegate("text.write", tiemout=3)
    bus.delegate("text.write", permissions=["x"])
    bus.start(Writer).delegate("text.write", tiemout=3)
    bus.delegate("text.write", budget=ether.Budget(max_cost=1), permissions={"can_delegate": False}, fallback=True, to="w")
    bus.delegate("text.write", request_id=uuid.uuid4(), parent=bus.delegate("text.write").request_id)
"""


def names(model: type[Model]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_every_field_that_can_be_said_is_known_by_its_name():
    assert names(Delegation) - DELEGATE - OF_THE_BUS == {*DelegationFields.__annotations__} - OF_THE_BUS
    assert names(Response) - RESPOND - OF_THE_BUS == {*ResponseFields.__annotations__} - OF_THE_BUS


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_type_checker_finds_a_misspelt_field(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    said, _, code = api.run(["--strict", f"--config-file={REPOSITORY / 'pyproject.toml'}", str(program)])

    assert code == 1
    found = [line.partition("program.py:")[2].split(":")[0] for line in said.splitlines() if ": error: " in line]
    assert found == ["7", "8", "11", "12", "13"], said
