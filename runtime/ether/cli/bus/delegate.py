"""`ether exec` and `ether delegate`: ask for one piece of work, and print what became of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from ether.cli.bus.outcome import follow, print_outcome
from ether.cli.bus.params import collect_params, read_json, read_pairs
from ether.cli.common.connection import any_bus, pause
from ether.cli.common.exit_code import code_of_status
from ether.cli.common.options import (
    AgentArgument,
    AgentClasses,
    BudgetOption,
    CapabilityArgument,
    ConnectOption,
    ContextOption,
    FallbackOption,
    FormatOption,
    KeysOption,
    ObjectiveOption,
    PairOption,
    ParamsOption,
    PermissionOption,
    RequestIdOption,
    ServerKeyOption,
    StreamOption,
    TimeoutOption,
    WaitOption,
    output_of,
    settings_of,
)
from ether.cli.common.output import Output
from ether.text_io.terminal import say
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT, Budget
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.manifest import ANY
from ether_broker.errors import EtherError, NameTaken, UsageError, nearest
from ether_broker.wire.codec import id_bytes

if TYPE_CHECKING:
    from ether.runtime import Runtime
    from ether_broker.envelope.response import Response

__all__ = ["add_to"]

# Options that a command has not become parameters, as in `--path src`.
_FREE: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
_PYTHONS: Final = {"True": True, "False": False}
_TAKEN: Final = 0.25
"""Seconds after which a name that was taken is tried again."""


class Place(NamedTuple):
    """The bus, as the options say it."""

    connect: str | None
    wait: float
    agents: Sequence[str]
    keys: str | None
    server_key: str | None


@dataclass(frozen=True, slots=True)
class Work:
    """The delegation that a command's options describe."""

    capability: str
    to: str | None
    pairs: Sequence[str]
    params: str | None
    free: Sequence[str]
    context: str | None
    objective: str
    timeout: float | None
    stream: bool

    def check(self) -> dict[str, Any]:
        """The arguments of `Runtime.delegate`, before anything is started.

        Raises:
            UsageError: a parameter or option cannot be.
        """
        for word in filter(None, (self.to, self.capability)):
            if word.startswith("-"):
                msg = f"There is no option {word} before the names: parameters stand behind them."
                raise UsageError(msg)
        if self.timeout is not None and self.timeout <= 0:
            msg = f"--timeout is {self.timeout:g} and has to be more than 0 seconds."
            raise UsageError(msg)
        return {
            "capability": self.capability,
            "params": collect_params(self.params, self.pairs, self.free),
            "to": self.to,
            "context": None if self.context is None else read_json(self.context, "--context"),
            "objective": self.objective,
            "timeout": self.timeout,
        }


def add_to(app: typer.Typer) -> None:
    """Give the app these commands."""
    app.command("exec", context_settings=_FREE)(execute)
    app.command(context_settings=_FREE)(delegate)


def execute(
    ctx: typer.Context,
    *,
    agent_name: AgentArgument,
    action: CapabilityArgument,
    param: PairOption = None,
    params: ParamsOption = None,
    context: ContextOption = None,
    objective: ObjectiveOption = "",
    budget: BudgetOption = None,
    permission: PermissionOption = None,
    request_id: RequestIdOption = None,
    fallback: FallbackOption = False,
    timeout: TimeoutOption = None,
    stream: StreamOption = False,
    connect: ConnectOption = None,
    wait: WaitOption = 0.0,
    keys: KeysOption = None,
    server_key: ServerKeyOption = None,
    agent: AgentClasses = None,
    output_format: FormatOption = None,
) -> None:
    """Have AGENT do something, and print what became of it.

    CAPABILITY may be its last word alone. Parameters are `--param path=src`, or just `--path src`; behind `--`
    also those that have the name of an option.
    """
    work = Work(action, agent_name, param or (), params, ctx.args, context, objective, timeout, stream)
    fields = _fields(budget, permission, request_id, fallback=fallback)
    _run(ctx, work, fields, Place(connect, wait, agent or (), keys, server_key), output_of(ctx, output_format))


def delegate(
    ctx: typer.Context,
    *,
    capability: CapabilityArgument,
    param: PairOption = None,
    params: ParamsOption = None,
    context: ContextOption = None,
    objective: ObjectiveOption = "",
    budget: BudgetOption = None,
    permission: PermissionOption = None,
    request_id: RequestIdOption = None,
    timeout: TimeoutOption = None,
    stream: StreamOption = False,
    connect: ConnectOption = None,
    wait: WaitOption = 0.0,
    keys: KeysOption = None,
    server_key: ServerKeyOption = None,
    agent: AgentClasses = None,
    output_format: FormatOption = None,
) -> None:
    """Have the best holder of CAPABILITY do it, and print what became of it.

    A prefix asks for anything below it. Parameters are as for `exec`.
    """
    work = Work(capability, None, param or (), params, ctx.args, context, objective, timeout, stream)
    fields = _fields(budget, permission, request_id)
    _run(ctx, work, fields, Place(connect, wait, agent or (), keys, server_key), output_of(ctx, output_format))


def _fields(
    budget: Sequence[str] | None, permission: Sequence[str] | None, request_id: str | None, *, fallback: bool = False
) -> dict[str, Any]:
    """Further fields of the delegation, those that were given.

    Raises:
        UsageError, InvalidEnvelope: one of them cannot be.
    """
    fields: dict[str, Any] = {"request_id": to_text(id_bytes(request_id))} if request_id else {}
    if fallback:
        fields["fallback"] = True
    if budget:
        fields["budget"] = Budget.parse(read_pairs(budget, "--budget", "max_cost=0.5"))
    if permission:
        given = read_pairs(permission, "--permission", "can_modify_files=false")
        fields["permissions"] = {name: _PYTHONS.get(str(value), value) for name, value in given.items()}
    return fields


def _run(ctx: typer.Context, work: Work, fields: dict[str, Any], place: Place, out: Output) -> None:
    arguments = {**work.check(), **fields}
    if place.agents and "request_id" in fields:
        msg = "--agent makes a bus for this call alone, where no request is known: leave --agent out, or --request-id."
        raise UsageError(msg)
    limit = time.monotonic() + place.wait
    with _bus(place, arguments) as bus:
        while place.wait and not _is_there(bus, work) and time.monotonic() < limit:
            pause()
        response = follow(bus.delegate(**arguments), out, stream=work.stream)
        declared = _declared(bus, work, response) if response.unexpected_fields else set()
    print_outcome(response, out, debug=settings_of(ctx).debug)
    if out.is_text:
        _hint(ctx, response, declared)
    raise typer.Exit(code_of_status(response.status))


@contextmanager
def _bus(place: Place, arguments: Mapping[str, Any]) -> Iterator[Runtime]:
    """The bus; for a request id as a delegator that is named after it, as only its delegator may send a request again.

    While another command has that name, it waits for the same request; so this one waits for it, as long as the work may take.

    Raises:
        NameTaken: the other one is still there.
        EtherError: as `any_bus`.
    """
    request_id, budget = arguments.get("request_id"), arguments.get("budget") or Budget()
    name = None if request_id is None else f"request-{request_id}"
    limit = time.monotonic() + (arguments["timeout"] or budget.max_time_sec or DEFAULT_TIMEOUT)
    with ExitStack() as stack:
        while True:
            found = any_bus(
                place.connect, place.wait, place.agents, keys=place.keys, server_key=place.server_key, name=name
            )
            try:
                bus = stack.enter_context(found)
            except NameTaken:
                if time.monotonic() >= limit:
                    msg = (
                        f"Another command asks for the request {request_id}, and is not done. "
                        "Wait until it has ended, or give this request another id."
                    )
                    raise NameTaken(msg) from None
                time.sleep(_TAKEN)
            else:
                break
        yield bus


def _is_there(bus: Runtime, work: Work) -> bool:
    """Whether somebody has registered who could be meant; the bus itself decides who gets it."""
    if work.to is not None:
        return any(bus.iter_agents([work.to]))
    asked = f".{work.capability}."
    return any(held == ANY or asked in f".{held}." for held in bus.capabilities())


def _declared(bus: Runtime, work: Work, response: Response) -> set[str]:
    """The parameters of what was asked for, as the agent that answered declares them; empty where that cannot be known."""
    with suppress(EtherError):
        capabilities = [held for agent in bus.manifests(response.from_agent) for held in agent["capabilities"]]
        asked = [held for held in capabilities if f".{work.capability}." in f".{held['name']}."]
        return {name for held in asked for name in (held.get("params_schema") or {}).get("properties", ())}
    return set()


def _hint(ctx: typer.Context, response: Response, declared: set[str]) -> None:
    """Say what is meant where a misspelt option or parameter became one that the agent does not take, or a value is missing."""
    known = [option for parameter in ctx.command.params for option in parameter.opts if option[:2] == "--"]
    known += map(_option, declared)
    following = dict(itertools.pairwise([*ctx.args, "--"]))
    for field in response.unexpected_fields:
        option = _option(field)
        if field in declared:
            if following.get(option, "").startswith("--"):
                say(f"  {option} has no value, and so is true.")
        elif option in _words(ctx.args) and "Did you mean" in (meant := nearest(option, known)):
            say(f"  {option} is no option, and so was taken as a parameter.{meant}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _words(args: Sequence[str]) -> set[str]:
    return {word.partition("=")[0] for word in args}
