"""`ether up`: run a bus on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ether.cli.common.options import SettingsOptions, with_options
from ether.cli.common.output import Output
from ether.cluster.cluster_spec import ClusterSpec
from ether.cluster.file.file_schema import ClusterSection
from ether_broker.discovery.listening import is_listening
from ether_broker.errors import AddressInUse, UsageError
from ether_broker.transport.endpoint import default_endpoint

__all__ = ["up"]

_CLUSTER: Final = SettingsOptions(
    ClusterSection, "name", "bind", "advertise", "drain", "durability", "journal", before="the file's, or "
)


@with_options
def up(
    *,
    what: Annotated[
        list[str], typer.Argument(metavar="FILE|MODULE:CLASS...", help="A cluster file, or the agents themselves.")
    ],
    cluster: Annotated[dict[str, Any], _CLUSTER],
    nodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes, each with these agents.", show_default="1")
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            envvar="ETHER_KEYS",
            help="The folder of keys: TCP is encrypted, and only keys that it allows get in.",
            show_default="the file's",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Bind an address that other machines reach, without keys.")
    ] = False,
    out: Output,
) -> None:
    """Run a bus on this machine, until SIGTERM or Ctrl-C: a broker with its supervisor, and nodes with agents.

    Prints the bus's URL on stdout once all agents are up. The first signal drains, a second one ends it at once.
    """
    overrides = {f"cluster.{name}": value for name, value in cluster.items()}
    overrides |= {"security.keys": keys, "security.insecure": insecure or None}
    spec, file = _spec(what, nodes, overrides)
    own = default_endpoint(spec.name)
    if spec.bind is None and is_listening(own):
        raise AddressInUse(
            f"A bus of yours named {spec.name!r} runs already, at {own}: use that one, stop it, or give this one another "
            "name (`ether up --name NAME …`, and --name NAME to the commands that ask it)."
        )
    from ether.cluster.cluster import up as run
    from ether.cluster.file.file_loader import load

    read = partial(load, overrides=overrides)
    raise typer.Exit(run(spec, on_event=out.note, on_up=out.url, file=file, read=read))


def _spec(what: Sequence[str], nodes: int | None, overrides: Mapping[str, Any]) -> tuple[ClusterSpec, str | None]:
    """The cluster of a command line, and its file, if it has one.

    Options count more than the environment, and that more than the file.

    Raises:
        UsageError: a file and agents, or two files; or a file and `--nodes`.
        InvalidSpec, InvalidEndpoint: the file, a variable or an option says what cannot be.
    """
    from ether.cluster.file.file_loader import load, of_agents

    files = [word for word in what if ":" not in word or Path(word).suffix in {".yaml", ".yml"}]
    if not files:
        return of_agents(what, nodes or 1, overrides), None
    if len(what) > 1:
        raise UsageError(f"{files[0]} is a file, and says everything: name it alone, or agents as module:Class.")
    if ":" not in files[0] and not Path(files[0]).suffix and not Path(files[0]).exists():
        raise UsageError(f"{files[0]} is no file; an agent is module:Class, as in {files[0]}:Reader.")
    if nodes is not None:
        raise UsageError(f"--nodes goes with agents: {files[0]} says itself which nodes there are.")
    return load(files[0], overrides), str(Path(files[0]).absolute())
