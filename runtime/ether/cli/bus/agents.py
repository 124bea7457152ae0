"""`ether agents`, `ether capabilities` and `ether nodes`: who is on the bus, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from ether.cli.common.completion import complete_agents
from ether.cli.common.connection import any_bus
from ether.cli.common.options import (
    AgentClasses,
    ConnectOption,
    FormatOption,
    KeysOption,
    NameOption,
    ServerKeyOption,
    WaitOption,
    named,
    output_of,
)
from ether.cli.common.output import Column, seconds
from ether_broker.errors import UnknownAgent, nearest

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Give the app these commands."""
    app.command()(agents)
    app.command()(capabilities)
    app.command()(nodes)


def agents(
    ctx: typer.Context,
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="Only these.", autocompletion=complete_agents)
    ] = None,
    connect: ConnectOption = None,
    bus_name: NameOption = None,
    wait: WaitOption = 0.0,
    keys: KeysOption = None,
    server_key: ServerKeyOption = None,
    agent: AgentClasses = None,
    output_format: FormatOption = None,
) -> None:
    """List the agents: where they live, how they are, what they have done."""
    out = output_of(ctx, output_format)
    with any_bus(named(bus_name) or connect, wait, agent or (), keys=keys, server_key=server_key) as bus:
        if not names:
            out.rows(bus.iter_agents(), _AGENTS)
            return
        rows = list(bus.iter_agents(names))
        for name in sorted({*names} - {row["agent"] for row in rows}):
            msg = f"There is no agent {name!r}.{nearest(name, (row['agent'] for row in bus.iter_agents()))}"
            raise UnknownAgent(msg)
    out.rows(rows, _AGENTS)


def nodes(
    ctx: typer.Context, *, connect: ConnectOption = None, bus_name: NameOption = None, wait: WaitOption = 0.0,
    keys: KeysOption = None, server_key: ServerKeyOption = None, output_format: FormatOption = None,
) -> None:  # fmt: skip
    """List the nodes: the processes that are on the bus, this command's own too."""
    out = output_of(ctx, output_format)
    with any_bus(named(bus_name) or connect, wait, (), keys=keys, server_key=server_key) as bus:
        out.rows(bus.nodes(), _NODES)


def capabilities(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[AGENT]", help="Only this agent's.", autocompletion=complete_agents),
    ] = None,
    connect: ConnectOption = None,
    bus_name: NameOption = None,
    wait: WaitOption = 0.0,
    keys: KeysOption = None,
    server_key: ServerKeyOption = None,
    agent: AgentClasses = None,
    output_format: FormatOption = None,
) -> None:
    """List what can be asked for, and of whom; as JSON with the schemas of parameters and results."""
    out = output_of(ctx, output_format)
    with any_bus(named(bus_name) or connect, wait, agent or (), keys=keys, server_key=server_key) as bus:
        manifests = bus.manifests()
    known = [manifest["agent"] for manifest in manifests]
    if name is not None and name not in known:
        msg = f"There is no agent {name!r} with capabilities.{nearest(name, known)}"
        raise UnknownAgent(msg)
    rows = [
        {"agent": manifest["agent"], **_capability(capability)}
        for manifest in manifests
        if name in (None, manifest["agent"])
        for capability in manifest["capabilities"]
    ]
    out.rows(sorted(rows, key=lambda row: (row["capability"], row["agent"])), _CAPABILITIES)


def _capability(declared: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest's entry, with what it leaves out because it is the default."""
    return {
        "capability": declared["name"],
        "description": declared.get("description", ""),
        "confidence": declared.get("confidence", 1.0),
        "latency_weight": declared.get("latency_weight", 1.0),
        "idempotent": declared.get("idempotent", False),
        "constraints": declared.get("constraints", []),
        "params_schema": declared.get("params_schema", {}),
        "result_schema": declared.get("result_schema", {}),
    }


def _params(row: Mapping[str, Any]) -> str:
    """The parameters as one would write them: `path depth=2`."""
    schema = row["params_schema"]
    required = schema.get("required", ())
    words = []
    for name, field in schema.get("properties", {}).items():
        default = field.get("default")
        shown = name if default is None else f"{name}={default}"
        words.append(shown if name in required else f"[{shown}]")
    if schema.get("additionalProperties"):
        words.append("…")
    return " ".join(words)


def _condition(row: Mapping[str, Any]) -> str:
    """How it is, and since when it has been at work, without a sign of life, or in the way of all async handlers."""
    blocking = row["load"].get("blocking")
    if blocking and not row["stalled_for"]:
        return f"blocks {seconds(blocking.get('seconds'))} at {blocking.get('at')}"
    for word in ("stalled", "busy"):
        if row[f"{word}_for"]:
            return f"{word} {seconds(row[f'{word}_for'])}"
    return str(row["condition"])


def _ended(row: Mapping[str, Any]) -> int:
    return sum(row["outcomes"].values())


_AGENTS: Final = (
    Column("agent", lambda row: row["agent"]),
    Column("node", lambda row: row["node"]),
    Column("condition", _condition),
    Column("queued", lambda row: row["queued"], right=True),
    Column("running", lambda row: row["in_flight"], right=True),
    Column("done", lambda row: row["outcomes"].get("COMPLETED", 0), right=True),
    Column("not done", lambda row: _ended(row) - row["outcomes"].get("COMPLETED", 0), right=True),
    Column("p50", lambda row: seconds(row["p50"]), right=True),
    Column("p99", lambda row: seconds(row["p99"]), right=True),
    Column("role", lambda row: row["role"]),
)
_NODES: Final = (
    Column("node", lambda row: row["node"]),
    Column("host", lambda row: row.get("host")),
    Column("pid", lambda row: row.get("pid"), right=True),
    Column("agents", lambda row: row["agents"], right=True),
    Column("observers", lambda row: row["observers"], right=True),
    Column("silent", lambda row: seconds(row["silent"]), right=True),
)
_CAPABILITIES: Final = (
    Column("capability", lambda row: row["capability"]),
    Column("agent", lambda row: row["agent"]),
    Column("confidence", lambda row: f"{row['confidence']:g}", right=True),
    Column("idempotent", lambda row: "yes" if row["idempotent"] else "no"),
    Column("params", _params),
    Column("description", lambda row: row["description"].partition("\n")[0]),
)
