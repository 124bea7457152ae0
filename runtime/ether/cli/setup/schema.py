"""`ether schema`: the JSON Schemas of what travels, and of the cluster file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ether.cli.common.options import FormatOption, output_of
from ether.cli.common.output import Column
from ether_broker.errors import UsageError, nearest
from ether_broker.text import json_text

__all__ = ["add_to"]

_CLUSTER: Final = "cluster-file"


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(schema)


def schema(
    ctx: typer.Context,
    *,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this one.")] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="DIR", help="Write them to files there.", file_okay=False)
    ] = None,
    output_format: FormatOption = None,
) -> None:
    """List the JSON Schemas of the envelopes, the views and the cluster file; print one, or write them to a folder."""
    from ether.cluster.file_loader import json_schema
    from ether_broker.wire.json_schema import file_name, schemas, write_schemas

    out = output_of(ctx, output_format)
    known = {**schemas(), _CLUSTER: json_schema()}
    if name is not None and name not in known:
        msg = f"There is no schema {name!r}.{nearest(name, known)}"
        raise UsageError(msg)
    if write is not None:
        written = write_schemas(write) if name is None else []
        written.append(_write(write / file_name(name or _CLUSTER), known[name or _CLUSTER]))
        out.rows([{"file": str(path)} for path in written], (Column("file", lambda row: row["file"]),))
    elif name is not None:
        out.value(known[name])
    elif out.is_text:
        rows = [{"name": key, "description": value.get("description", "")} for key, value in known.items()]
        columns = (
            Column("name", lambda row: row["name"]),
            Column("description", lambda row: row["description"].partition("\n")[0]),
        )
        out.rows(rows, columns)
    else:
        out.value(known)


def _write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json_text(document, indent=2) + "\n", encoding="utf-8", newline="\n")
    return path
