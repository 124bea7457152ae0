"""`ether schema`: the JSON Schemas of what travels, and of the cluster file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether_broker.name_hint import choice
from ether_broker.text import json_text

__all__ = ["schema"]

_CLUSTER: Final = "cluster-file"


@with_options
def schema(
    *,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this one.")] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write them to files there.", file_okay=False)
    ] = None,
    out: Output,
) -> None:
    """List the JSON Schemas of the envelopes, the views and the cluster file; print one, or write them to a folder."""
    from ether.cluster.file.file_loader import json_schema
    from ether_broker.wire.json_schema import file_name, schemas, write_schemas

    known = {**schemas(), _CLUSTER: json_schema()}
    if name is not None:
        choice(name, known, "schema")
    if write is not None:
        written = write_schemas(write) if name is None else []
        written.append(_write(write / file_name(name or _CLUSTER), known[name or _CLUSTER]))
        out.rows([{"file": str(path)} for path in written], (Column("file"),))
    elif name is not None:
        out.value(known[name])
    elif out.is_text:
        rows = [{"name": key, "description": value.get("description", "")} for key, value in known.items()]
        columns = (Column("name"), Column("description", lambda row: row["description"].partition("\n")[0]))
        out.rows(rows, columns)
    else:
        out.value(known)


def _write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json_text(document, indent=2) + "\n", encoding="utf-8", newline="\n")
    return path
