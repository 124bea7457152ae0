"""`ether agents`, `ether capabilities` and `ether nodes`: who is on the bus, and what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from ether.cli.common.bus_options import AgentClassesOption, NamedBusOptions
from ether.cli.common.completion import complete_agents
from ether.cli.common.connection import any_bus, joined
from ether.cli.common.options import with_options
from ether.cli.common.output import Output, seconds
from ether.cli.common.table import Column
from ether_broker.errors import UnknownAgent
from ether_broker.name_hint import nearest

__all__ = ["agents", "capabilities", "nodes"]


@with_options
def agents(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="Only these.", autocompletion=complete_agents)
    ] = None,
    bus: NamedBusOptions,
    agent: AgentClassesOption = None,
    out: Output,
) -> None:
    """List the agents: where they live, how they are, what they have done."""
    with any_bus(bus, agent) as found:
        if not names:
            out.rows(found.iter_agents(), _AGENTS)
            return
        rows = list(found.iter_agents(names))
        for name in sorted({*names} - {row["agent"] for row in rows}):
            msg = f"There is no agent {name!r}.{nearest(name, (row['agent'] for row in found.iter_agents()))}"
            raise UnknownAgent(msg)
    out.rows(rows, _AGENTS)


@with_options
def nodes(bus: NamedBusOptions, out: Output) -> None:
    """List the nodes: the processes that are on the bus, this command's own too."""
    with joined(bus, bus.wait) as found:
        out.rows(found.nodes(), _NODES)


@with_options
def capabilities(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="Only this agent's.", autocompletion=complete_agents)
    ] = None,
    bus: NamedBusOptions,
    agent: AgentClassesOption = None,
    out: Output,
) -> None:
    """List what can be asked for, and of whom; as JSON with the schemas of parameters and results."""
    with any_bus(bus, agent) as found:
        manifests = found.manifests()
    known = [manifest["agent"] for manifest in manifests]
    if name is not None and name not in known:
        raise UnknownAgent(f"There is no agent {name!r} with capabilities.{nearest(name, known)}")
    rows = [
        {"agent": manifest["agent"], **_capability(capability)}
        for manifest in manifests
        if name in (None, manifest["agent"])
        for capability in manifest["capabilities"]
    ]
    out.rows(sorted(rows, key=lambda row: (row["capability"], row["agent"])), _CAPABILITIES)


def _capability(declared: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest's entry, with what it leaves out because it is the default."""
    defaults: dict[str, Any] = {
        "description": "", "confidence": 1.0, "latency_weight": 1.0, "idempotent": False, "constraints": [],
        "params_schema": {}, "result_schema": {},
    }  # fmt: skip
    return {"capability": declared["name"], **{name: declared.get(name, value) for name, value in defaults.items()}}


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
    if row["stalled_for"]:
        return f"stalled {seconds(row['stalled_for'])}"
    if row["busy_for"] and row["in_flight"]:  # its node said so with its last sign of life, and may have answered since
        return f"busy {seconds(row['busy_for'])}"
    return str(row["condition"])


_AGENTS: Final = (
    Column("agent"),
    Column("node"),
    Column("condition", _condition),
    Column("queued", right=True),
    Column("running", lambda row: row["in_flight"], right=True),
    Column("done", lambda row: row["outcomes"].get("COMPLETED", 0), right=True),
    Column("not done", lambda row: sum(row["outcomes"].values()) - row["outcomes"].get("COMPLETED", 0), right=True),
    Column("p50", lambda row: seconds(row["p50"]), right=True),
    Column("p99", lambda row: seconds(row["p99"]), right=True),
    Column("role"),
)
_NODES: Final = (
    Column("node"),
    Column("host"),
    Column("pid", right=True),
    Column("agents", right=True),
    Column("observers", right=True),
    Column("silent", lambda row: seconds(row["silent"]), right=True),
)
_CAPABILITIES: Final = (
    Column("capability"),
    Column("agent"),
    Column("confidence", lambda row: f"{row['confidence']:g}", right=True),
    Column("idempotent", lambda row: "yes" if row["idempotent"] else "no"),
    Column("params", _params),
    Column("description", lambda row: row["description"].partition("\n")[0]),
)
