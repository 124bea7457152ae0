"""The options of commands: how they are declared in groups, and those that every command has.

    @with_options
    def leases(bus: NamedBusOptions, out: Output) -> None: ...

typer reads a parameter an option, so that each command would repeat every option that it shares with others, and hand
it on. Here a group of options is a dataclass, and stands in a command's signature for its fields. What is declared
elsewhere, as the settings of a run, is not declared again: `SettingsOptions` makes options of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ether.cli.common.output import Format, Output

__all__ = [
    "FormatOption",
    "SettingsOptions",
    "TimeoutOption",
    "output_of",
    "with_options",
]

Command = Callable[..., None]

FormatOption = Annotated[
    Format | None,
    typer.Option("--format", "-o", help="How data is printed.", show_default="text", envvar="ETHER_FORMAT"),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="To the deadline.", show_default="max_time_sec of --budget, or 60"),
]


class SettingsOptions:
    """The options for some settings, as their model declares them: with its types, its defaults, and its docstrings as help.

    It annotates a dict in a command's signature, which then has those that were given: {name: value}.

    Args:
        model: has a docstring under each of these fields.
        names: of fields.
        before: what counts more than a field's default, for the help.
    """

    def __init__(self, model: type[BaseModel], *names: str, before: str = "") -> None:
        self.parameters: dict[str, Parameter] = {
            name: _setting(name, model.model_fields[name], before) for name in names
        }
        """{name: what typer reads}."""

    @staticmethod
    def given(**options: Any) -> dict[str, Any]:
        """Those options that have a value; a flag that was not given has none."""
        return {name: value for name, value in options.items() if value is not None and value is not False}


def output_of(ctx: typer.Context, output_format: Format | None = None) -> Output:
    """Where a command prints: its own `-o` counts more than the one before the command's name."""
    found = ctx.find_object(Output) or Output()
    if output_format is not None:
        # An error is said in the format of the command, and the root's object is where it looks.
        ctx.find_root().obj = found = replace(found, format=output_format)
    return found


def with_options(command: Command) -> Command:
    """A command as typer reads it: each field of a dataclass in its signature is an option, and `Output` is `--format`.

    The command gets the dataclass made of what was given, or the dict for `SettingsOptions`, and the `Output` that the
    format asks for.
    """
    hints = get_type_hints(command, include_extras=True)
    flat = {"ctx": _parameter("ctx", typer.Context)}
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    output = ""
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        [*marks] = getattr(kind, "__metadata__", ())
        if kind is Output:
            output = name
            flat["output_format"] = _parameter("output_format", FormatOption, None)
        elif is_dataclass(kind) and isinstance(kind, type):
            options = _options(kind)
            groups[name] = kind, list(options)
            flat.update(options)
        elif marks and isinstance(marks[0], SettingsOptions):
            groups[name] = marks[0].given, list(marks[0].parameters)
            flat.update(marks[0].parameters)
        else:
            flat[name] = _parameter(name, kind, parameter.default)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        ctx = given["ctx"] if "ctx" in hints else given.pop("ctx")
        if output:
            given[output] = output_of(ctx, given.pop("output_format"))
        for name, (group, options) in groups.items():
            given[name] = group(**{option: given.pop(option) for option in options})
        command(**given)

    run.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return run


def _options(group: type[Any]) -> dict[str, Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: _parameter(
            field.name, hints[field.name], Parameter.empty if field.default is MISSING else field.default
        )
        for field in fields(group)
    }


def _setting(name: str, field: FieldInfo, before: str) -> Parameter:
    words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    kind: Any = str if words else _plain(field.annotation)  # of words, the model says which is the nearest
    default = "" if field.default is PydanticUndefined else field.default
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=field.description,
        metavar="|".join(words) or None,
        show_default=f"{before}{default}" if default else False,
    )
    return _parameter(name, Annotated[kind | None, option], None)


def _plain(kind: Any) -> Any:
    """A type without None and without its bounds, which the model checks."""
    if get_origin(kind) in {Union, UnionType}:
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
