"""Each row of docs/defaults.md, and the code's own word."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
from enum import Enum
from typing import Any, Final

import pytest

from ether import Delegation
from tests.support import REPOSITORY

ROW: Final = re.compile(
    r"^\| (?P<what>[^|*]+) \| (?P<told>[^|]+) \| `(?P<place>[\w.]+)(?:\((?P<argument>\w+)\))?` \|$", re.MULTILINE
)
ROWS: Final = [
    found.groupdict() for found in ROW.finditer((REPOSITORY / "docs/defaults.md").read_text(encoding="utf-8"))
]
UNITS: Final = {"": 1, "s": 1, "d": 86_400, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
WORDS: Final = {"None": None, "False": False}


def value_told(text: str) -> Any:
    number = re.fullmatch(r"(\d[\d,]*(?:\.\d+)?) ?(\w*)", text)
    return float(number[1].replace(",", "")) * UNITS[number[2]] if number else WORDS.get(text, text)


def value_of(place: str, argument: str | None) -> Any:
    """A parameter's default, a field's, or a constant."""
    if argument is not None:
        return inspect.signature(pkgutil.resolve_name(place)).parameters[argument].default
    owner, name = pkgutil.resolve_name(place.rpartition(".")[0]), place.rpartition(".")[2]
    if owner is Delegation:
        return Delegation.model_fields[name].default
    if dataclasses.is_dataclass(owner):
        return next(field.default for field in dataclasses.fields(owner) if field.name == name)
    return getattr(owner, name)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['place']}-{row['argument'] or ''}" for row in ROWS])
def test_a_default_is_as_the_page_tells(row: dict[str, str]) -> None:
    value = value_of(row["place"], row["argument"])

    assert (value.value if isinstance(value, Enum) else value) == value_told(row["told"])


def test_each_row_of_the_page_is_compared() -> None:
    lines = (REPOSITORY / "docs/defaults.md").read_text(encoding="utf-8").splitlines()

    assert len(ROWS) == sum(line.startswith("| ") and not line.startswith(("| what | ", "| **")) for line in lines)


def test_a_row_without_its_code_is_noticed() -> None:
    with pytest.raises(AttributeError):
        value_of("ether.Agent.no_such_default", None)
