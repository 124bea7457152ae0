"""Groups of options in a command's signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ether.cli.common.bus_options import NamedBusOptions
from ether.cli.common.options import with_options
from ether.cli.common.output import Format, Output
from ether_broker.errors import UsageError
from ether_broker.name_hint import choice


@dataclass(frozen=True, kw_only=True)
class Place:
    city: Annotated[str, typer.Option("--city")]
    street: Annotated[str | None, typer.Option("--street")] = None


@dataclass(frozen=True, kw_only=True)
class Address(Place):
    number: Annotated[int, typer.Option("--number", min=1)] = 1


def run(*words: str) -> tuple[int, list[object]]:
    seen: list[object] = []
    app = typer.Typer()

    @app.command()
    @with_options
    def command(word: str, *, address: Address, loud: bool = False, out: Output) -> None:
        seen.extend((word, address, loud, out.format))

    return CliRunner().invoke(app, words).exit_code, seen


def test_each_field_of_a_group_is_an_option_of_the_command_those_of_its_base_too() -> None:
    assert run("hello", "--city", "Oslo", "--number", "4", "--loud", "-o", "json") == (
        0,
        ["hello", Address(city="Oslo", number=4), True, Format.JSON],
    )


@pytest.mark.parametrize("words", [["hello"], ["hello", "--city", "Oslo", "--number", "0"]])
def test_a_field_without_a_default_is_asked_for_and_its_bounds_hold(words: list[str]) -> None:
    assert run(*words) == (2, [])


def test_the_name_of_a_bus_counts_more_than_its_address() -> None:
    assert NamedBusOptions(connect="tcp://there:1", bus_name="crew").url == "ipc://crew"
    assert NamedBusOptions(connect="tcp://there:1").url == "tcp://there:1"
    assert NamedBusOptions().url is None


def test_what_is_chosen_by_a_wrong_name_is_told_with_the_nearest() -> None:
    assert choice("bugs", {"bugs": 1}, "pass") == 1
    with pytest.raises(UsageError, match=r"There is no pass 'bus'\. Did you mean 'bugs'"):
        choice("bus", {"bugs": 1}, "pass")
