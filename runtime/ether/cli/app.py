"""The command `ether`: its subcommands, its global options, and what an error becomes.

An error that Ether raises on purpose is one line on stderr and an exit code (`exit_code.py`); `--debug` shows the
traceback too. With `-o json` or `jsonl` the line is JSON: `{"error": {"code", "message", "retryable", "exit_code"}}`.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import traceback
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from ether.cli.common.discover_option import with_lan_urls
from ether.cli.common.exit_code import ExitCode, code_of_error
from ether.cli.common.options import FormatOption, output_of
from ether.cli.common.output import Format, Output
from ether.text_io.terminal import log_to_stderr, put, say
from ether.version import __version__
from ether_broker.errors import EtherError, OutcomeError
from ether_broker.name_hint import nearest
from ether_broker.text import json_text

__all__ = ["app"]

_PASS: Final = (typer.Exit, typer.Abort, KeyboardInterrupt)
_MARKUP: Final = "markdown"
_COMMANDS: Final = {
    "up": "ether.cli.bus.up:up",
    "reload": "ether.cli.bus.reload:reload",
    "node": "ether.cli.bus.node:node",
    "review": "ether.cli.tools.review:review",
    "exec": "ether.cli.bus.delegate:execute",
    "delegate": "ether.cli.bus.delegate:delegate",
    "publish": "ether.cli.bus.publish:publish",
    "agents": "ether.cli.bus.agents:agents",
    "capabilities": "ether.cli.bus.agents:capabilities",
    "nodes": "ether.cli.bus.agents:nodes",
    "leases": "ether.cli.bus.leases:leases",
    "top": "ether.cli.top.top:top",
    "trace": "ether.cli.journal.trace:trace",
    "discover": "ether.cli.bus.discover:discover",
    "bench": "ether.cli.tools.bench:bench",
    "torture": "ether.cli.tools.torture:torture",
    "soak": "ether.cli.tools.soak:soak",
    "schema": "ether.cli.setup.schema:schema",
    "doctor": "ether.cli.setup.doctor:doctor",
    "version": "ether.cli.setup.version:version",
    "states": "ether.cli.bus.states:group",
    "dead-letters": "ether.cli.bus.dead_letters:group",
    "log": "ether.cli.journal.log:group",
    "gaps": "ether.cli.governance.gaps:group",
    "keys": "ether.cli.setup.keys:group",
}
"""{command: its function, or its group of commands}; each is imported when it is run, completed or listed."""


class Commands(TyperGroup):
    """The group of all commands; says every error in one way."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  click's signature
        """The names of all commands, in the order in which help lists them."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none: then all are loaded, and the error names the nearest."""
        for name in (cmd_name,) if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                self.commands[name] = _load(name)
        return super().get_command(ctx, cmd_name)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command line, and end the process with its exit code."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except Exception as error:
            # Typer brings a click of its own in some versions and takes the installed one in others, so that
            # its errors can be told by their shape only.
            if not hasattr(error, "format_message"):
                raise
            code = _say_usage(error)
        sys.exit(int(code or 0))

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and end it with the exit code of the error that it raises."""
        try:
            ctx.args = with_lan_urls(ctx.args)
            return super().invoke(ctx)
        except _PASS:
            raise
        except BrokenPipeError:
            raise typer.Exit(ExitCode.PIPE) from None
        except (EtherError, OSError) as error:
            _say(error, output_of(ctx))
            raise typer.Exit(code_of_error(error)) from None
        except Exception as error:
            if hasattr(error, "format_message"):
                raise
            say("".join(traceback.format_exception(error)).rstrip())
            say(f"ether: internal: {error!r} is a bug of Ether's, or of a module that you named; see above.")
            raise typer.Exit(ExitCode.SOFTWARE) from None


def _load(name: str) -> Any:
    """Import a command; its module's CONTEXT_SETTINGS, if there are any, are click's for it."""
    place, _, attribute = _COMMANDS[name].partition(":")
    module = importlib.import_module(place)
    found, one = getattr(module, attribute), typer.Typer(rich_markup_mode=_MARKUP)
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=name)
    else:
        one.command(name, context_settings=getattr(module, "CONTEXT_SETTINGS", None))(found)
    return get_group(one).commands[name]


def _say(error: EtherError | OSError, out: Output) -> None:
    if out.debug:
        say("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, EtherError):
        code, message, retryable = error.code, str(error), error.retryable
        if isinstance(error, OutcomeError) and error.response.error is not None:
            message = error.response.error.message  # the whole would say the code again
    else:
        place = f"{error.filename}: " if error.filename else ""
        code, message, retryable = "os", f"{place}{error.strerror or error}", False
    if out.is_text:
        say(f"ether: {code}: {message}")
    else:
        fields = {"code": code, "message": message, "retryable": retryable, "exit_code": code_of_error(error)}
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            put(json_text({"error": fields}), sys.stderr)


_BEFORE: Final = frozenset({"-q", "--quiet", "-v", "--verbose", "--debug"})
"""Options of `ether` itself."""


def _say_usage(error: Any) -> int:
    ctx, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if option in _BEFORE:
        text = f"{error.message}. It stands before the command, as in `ether {option} agents`"
    elif possibilities := getattr(error, "possibilities", None):
        hint = nearest(error.option_name, possibilities)  # of which click thinks that they are near
        text = f"{error.message}.{hint if '?' in hint else ''}"
    elif hasattr(error, "option_name") and getattr(getattr(ctx, "command", None), "commands", None):
        text = f"{error.message}. Options come after the subcommand"
    else:
        text = " ".join(str(error.format_message()).split())
    if text:
        path = getattr(ctx, "command_path", "ether")
        say(f"ether: usage: {text} (`{path} --help` tells more)")
    return int(error.exit_code)


app: typer.Typer = typer.Typer(
    name="ether",
    cls=Commands,
    help="An actor message bus for AI agents: they delegate to each other, supervised and observed.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 no broker, 4 timeout, 5 rejected, 6 unfinished, 7 cancelled.",
    rich_markup_mode=_MARKUP,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        put(f"ether {__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    *,
    output_format: FormatOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only errors on stderr.")] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Log to stderr; -vv logs more.", show_default=False)
    ] = 0,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="ETHER_DEBUG", help="Show the tracebacks of errors.")
    ] = False,
    version: Annotated[  # noqa: ARG001  its callback does the work
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the global options."""
    ctx.obj = Output(output_format or Format.TEXT, quiet=quiet, debug=debug)
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    log_to_stderr(level)
    if ctx.invoked_subcommand is None:
        put(ctx.get_help())
