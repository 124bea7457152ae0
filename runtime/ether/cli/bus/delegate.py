"""`ether exec` and `ether delegate`: ask for one piece of work, and print what became of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from ether.cli.bus.outcome import follow, print_outcome
from ether.cli.bus.params import collect_params, read_json, read_pairs
from ether.cli.common.bus_options import AgentClassesOption, BusOptions
from ether.cli.common.completion import complete_agents, complete_capabilities
from ether.cli.common.connection import any_bus, pause
from ether.cli.common.exit_code import code_of_status
from ether.cli.common.options import TimeoutOption, with_options
from ether.cli.common.output import Output
from ether.runtime import Runtime
from ether.text_io.terminal import say
from ether_actors.delegator.retry import Retry
from ether_broker.envelope.delegation import DEFAULT_TIMEOUT, Budget
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.manifest.manifest import ANY
from ether_broker.envelope.priority import WORDS, Priority
from ether_broker.envelope.response import Response
from ether_broker.errors import BrokerUnavailable, EtherError, NameTaken, UsageError
from ether_broker.name_hint import choice, nearest
from ether_broker.wire.codec import id_bytes

__all__ = ["CONTEXT_SETTINGS", "delegate", "execute"]

CONTEXT_SETTINGS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings of these commands for typer: options that a command has not become parameters, as in `--path src`."""
_PYTHONS: Final = {"True": True, "False": False}
_PRIORITIES: Final[dict[str, Priority]] = {word: word for word in WORDS}
_NAME: Final = "--name is a parameter here; the bus that runs under a name is --connect ipc://NAME."
_TAKEN: Final = 0.25
"""Seconds after which a name that was taken is tried again."""

CapabilityArgument = Annotated[str, typer.Argument(metavar="CAPABILITY", autocompletion=complete_capabilities)]


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work that is asked for, as the options of a delegation say it."""

    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", metavar="NAME=VALUE", help="A parameter; VALUE is JSON where it can be, and text else."
        ),
    ] = None
    params: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE|-", help="All parameters as a JSON object; `-` reads stdin.")
    ] = None
    context: Annotated[str | None, typer.Option(metavar="JSON|@FILE|-", help="The context slice of the work.")] = None
    objective: Annotated[str, typer.Option(metavar="TEXT", help="The aim in words.")] = ""
    budget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT=NUMBER",
            help="What it may use: max_cost, max_tokens, max_time_sec or max_iterations; several times for several.",
        ),
    ] = None
    permission: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="What it may do, such as can_modify_files=false; several times for several."
        ),
    ] = None
    request_id: Annotated[
        str | None,
        typer.Option(
            metavar="UUID", help="Name this request: the same id later gets its outcome.", show_default="a new one"
        ),
    ] = None
    priority: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(WORDS), help="What goes first of what waits for an agent.", show_default="normal"
        ),
    ] = None
    retry: Annotated[
        int | None,
        typer.Option(
            metavar="ATTEMPTS", help="Attempts in all, while the outcome may be better the next time.", show_default="1"
        ),
    ] = None
    timeout: TimeoutOption = None
    stream: Annotated[bool, typer.Option("--stream", help="Show progress while it runs.")] = False
    agent: AgentClassesOption = None

    def arguments(self, free: Sequence[str]) -> dict[str, Any]:
        """The arguments of `Runtime.delegate` that it gives, before anything is started.

        Args:
            free: options that the command has not, which are parameters.

        Raises:
            UsageError, InvalidEnvelope, InvalidSpec: one of them cannot be.
        """
        if self.timeout is not None and self.timeout <= 0:
            raise UsageError(f"--timeout is {self.timeout:g} and has to be more than 0 seconds.")
        given: dict[str, Any] = {
            "params": collect_params(self.params, self.param or (), free) or (None if self.params is None else {}),
            "context": None if self.context is None else read_json(self.context, "--context"),
            "objective": self.objective,
            "timeout": self.timeout,
        }
        if self.priority is not None:
            given["priority"] = choice(self.priority, _PRIORITIES, "priority")
        if self.retry is not None:
            given["retry"] = Retry(attempts=self.retry)
        if self.request_id:
            given["request_id"] = to_text(id_bytes(self.request_id))
        if self.budget:
            given["budget"] = Budget.parse(read_pairs(self.budget, "--budget", "max_cost=0.5"))
        if self.permission:
            pairs = read_pairs(self.permission, "--permission", "can_modify_files=false")
            given["permissions"] = {name: _PYTHONS.get(str(value), value) for name, value in pairs.items()}
        if self.agent and self.request_id:
            msg = "--agent makes a bus for this call alone, where no request is known: leave --agent out, or --request-id."
            raise UsageError(msg)
        return given


@with_options
def execute(
    ctx: typer.Context,
    *,
    agent_name: Annotated[str, typer.Argument(metavar="AGENT", autocompletion=complete_agents)],
    action: CapabilityArgument,
    work: Work,
    fallback: Annotated[
        bool,
        typer.Option("--fallback", help="Another may have it where AGENT is not there, does not take it, or leaves."),
    ] = False,
    bus: BusOptions,
    out: Output,
) -> None:
    """Have AGENT do something, and print what became of it.

    CAPABILITY may be its last word alone. Parameters are `--param path=src`, or just `--path src`; behind `--`
    also those that have the name of an option.
    """
    whom = {"capability": action, "to": agent_name, **({"fallback": True} if fallback else {})}
    _run(ctx, whom, work, bus, out)


@with_options
def delegate(ctx: typer.Context, *, capability: CapabilityArgument, work: Work, bus: BusOptions, out: Output) -> None:
    """Have the best holder of CAPABILITY do it, and print what became of it.

    A prefix asks for anything below it. Parameters are as for `exec`.
    """
    _run(ctx, {"capability": capability}, work, bus, out)


def _run(ctx: typer.Context, whom: Mapping[str, Any], work: Work, bus: BusOptions, out: Output) -> None:
    for word in filter(None, (whom.get("to"), whom["capability"])):
        if word.startswith("-"):
            raise UsageError(f"There is no option {word} before the names: parameters stand behind them.")
    arguments = {**whom, **work.arguments(ctx.args)}
    is_named = bus.connect is None and "--name" in {word.partition("=")[0] for word in ctx.args}
    limit = time.monotonic() + bus.wait
    with _joined(bus, work, arguments, hint=f" {_NAME}" if is_named else "") as found:
        while bus.wait and not _is_there(found, whom) and time.monotonic() < limit:
            pause()
        response = follow(found.delegate(**arguments), out, stream=work.stream)
        declared = _declared(found, whom["capability"], response) if response.unexpected_fields else set()
    print_outcome(response, out)
    if out.is_text:
        _hint(ctx, response, declared)
    raise typer.Exit(code_of_status(response.status))


@contextmanager
def _joined(bus: BusOptions, work: Work, arguments: Mapping[str, Any], hint: str) -> Iterator[Runtime]:
    """The bus; for a request id as a delegator that is named after it, as only its delegator may send a request again.

    While another command has that name, it waits for the same request; so this one waits for it, as long as the work may take.

    Args:
        bus: where to find it.
        work: that is asked for.
        arguments: of the delegation.
        hint: what is said where no broker is found.

    Raises:
        NameTaken: the other one is still there.
        EtherError: as `any_bus`.
    """
    request_id, budget = arguments.get("request_id"), arguments.get("budget") or Budget()
    name = None if request_id is None else f"request-{request_id}"
    limit = time.monotonic() + (work.timeout or budget.max_time_sec or DEFAULT_TIMEOUT)
    with ExitStack() as stack:
        while True:
            try:
                found = stack.enter_context(any_bus(bus, work.agent, name=name))
            except BrokerUnavailable as error:
                raise type(error)(f"{error}{hint}") from None
            except NameTaken:
                if time.monotonic() >= limit:
                    raise NameTaken(
                        f"Another command asks for the request {request_id}, and is not done. "
                        "Wait until it has ended, or give this request another id."
                    ) from None
                time.sleep(_TAKEN)
            else:
                break
        yield found


def _is_there(bus: Runtime, whom: Mapping[str, Any]) -> bool:
    """Whether somebody has registered who could be meant; the bus itself decides who gets it."""
    if "to" in whom:
        return any(bus.iter_agents([whom["to"]]))
    asked = f".{whom['capability']}."
    return any(held == ANY or asked in f".{held}." for held in bus.capabilities())


def _declared(bus: Runtime, capability: str, response: Response) -> set[str]:
    """The parameters of what was asked for, as the agent that answered declares them; empty where that cannot be known."""
    with suppress(EtherError):
        capabilities = [held for agent in bus.manifests(response.from_agent) for held in agent["capabilities"]]
        asked = [held for held in capabilities if f".{capability}." in f".{held['name']}."]
        return {name for held in asked for name in (held.get("params_schema") or {}).get("properties", ())}
    return set()


def _hint(ctx: typer.Context, response: Response, declared: set[str]) -> None:
    """Say what is meant where a misspelt option or parameter became one that the agent does not take, or a value is missing."""
    known = [option for parameter in ctx.command.params for option in parameter.opts if option[:2] == "--"]
    known += map(_option, declared)
    words = {word.partition("=")[0] for word in ctx.args}
    following = dict(itertools.pairwise([*ctx.args, "--"]))
    for field in response.unexpected_fields:
        option = _option(field)
        if field in declared:
            if following.get(option, "").startswith("--"):
                say(f"  {option} has no value, and so is true.")
        elif option == "--name" and option in words:
            say(f"  {_NAME}")
        elif option in words and "Did you mean" in (meant := nearest(option, known)):
            say(f"  {option} is no option, and so was taken as a parameter.{meant}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
