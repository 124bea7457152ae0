"""`ether keys`: our own keys, and whom they let in."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.common.table import Column
from ether_broker.errors import InvalidKey

if TYPE_CHECKING:
    from ether_broker.security.keyring import Keyring
    from ether_broker.security.keys import PublicKey

__all__ = ["group"]

FolderOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", envvar="ETHER_KEYS", help="The folder of keys.", show_default="~/.config/ether/keys"),
]

group: typer.Typer = typer.Typer(
    help="Make keys for encrypted connections, and say whose keys are let in.", no_args_is_help=True
)


@group.command()
@with_options
def new(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of the key.", show_default="this machine's name")
    ] = None,
    keys: FolderOption = None,
    out: Output,
) -> None:
    """Make a folder with a key pair of our own. Nobody is let in yet."""
    from ether_broker.security.keyring import Keyring

    keyring = Keyring.create(_folder(keys), name or _host())
    text = f"{keyring.own.name}  {keyring.own.fingerprint}  {keyring.folder}"
    out.value(_own(keyring), text)
    out.note(f"Use it with --keys {keyring.folder}, or ETHER_KEYS; `ether keys show` prints what to hand out.")


@group.command()
@with_options
def show(keys: FolderOption = None, *, out: Output) -> None:
    """Print our own public key, as a file to hand out: `ether keys show > broker.key`."""
    keyring = _keyring(keys)
    out.value(_own(keyring), keyring.own.shared.file_text().rstrip())


@group.command("list")
@with_options
def list_keys(keys: FolderOption = None, *, out: Output) -> None:
    """List our own key, and those that are let in with the nodes that they may be."""
    keyring = _keyring(keys)
    prepared = None if keyring.prepared is None else keyring.prepared.shared
    ours = {"own": keyring.own.shared, "next": prepared, "previous": keyring.previous}
    rows = [{"entry": name, **_row(key, ("*",))} for name, key in ours.items() if key is not None]
    rows += [{"entry": "allowed", **_row(entry, entry.nodes)} for entry in keyring.allowed]
    out.rows(rows, _COLUMNS)


@group.command()
@with_options
def allow(
    *,
    key: Annotated[str, typer.Argument(metavar="FILE|KEY", help="A public key, or the file with it.")],
    name: Annotated[str | None, typer.Option(help="Of the entry.", show_default="the one in the file")] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Node names that it may take.", show_default="NAME and NAME/..."),
    ] = None,
    keys: FolderOption = None,
    out: Output,
) -> None:
    """Let a key in, as one node name or a pattern of them. A running broker takes it up at once."""
    from ether_broker.security.keys import PublicKey

    keyring = _keyring(keys)
    given = PublicKey.of(key)
    wanted = name or given.name
    if not wanted:
        raise InvalidKey("The key has no name: give it one with --name.")
    entry = keyring.allow(given.text, wanted, node or ())
    out.value(_row(entry, entry.nodes), f"{entry.name}  {entry.fingerprint}  may be {', '.join(entry.nodes)}")


@group.command()
@with_options
def revoke(
    *, which: Annotated[str, typer.Argument(metavar="NAME|FINGERPRINT|KEY")], keys: FolderOption = None, out: Output
) -> None:
    """Let a key in no more; the nodes that are in with it are out within a second."""
    entry = _keyring(keys).revoke(which)
    out.value(_row(entry, entry.nodes), f"{entry.name}  {entry.fingerprint}  revoked")


@group.command()
@with_options
def rotate(
    *,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only make the next key, to hand out before it is used.")
    ] = False,
    keys: FolderOption = None,
    out: Output,
) -> None:
    """Replace our own pair: by the prepared one, or by a new one at once.

    A running broker takes the new key for new connections; those that are there go on. `ether keys revoke previous`
    ends those that were made with the former one.
    """
    keyring = _keyring(keys)
    pair = keyring.prepare() if prepare else keyring.switch()
    row = {**_row(pair.shared, ()), "in_use": not prepare, "folder": str(keyring.folder)}
    out.value(row, pair.shared.file_text().rstrip())
    if prepare:
        out.note("Hand it out beside the present one, then `ether keys rotate`.")


def _folder(keys: Path | None) -> Path:
    from ether_broker.security.keyring import default_folder

    return keys or default_folder()


def _keyring(keys: Path | None) -> Keyring:
    from ether_broker.security.keyring import Keyring

    return Keyring(_folder(keys))


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9_.@-]+|^[^A-Za-z0-9]+", "-", os.uname().nodename).strip("-.")[:64] or "host"


def _own(keyring: Keyring) -> dict[str, Any]:
    return {**_row(keyring.own.shared, ("*",)), "folder": str(keyring.folder)}


def _row(key: PublicKey, nodes: tuple[str, ...]) -> dict[str, Any]:
    return {"name": key.name, "fingerprint": key.fingerprint, "key": key.text, "nodes": list(nodes)}


_COLUMNS: Final = (
    Column("entry"),
    Column("name"),
    Column("fingerprint"),
    Column("nodes", lambda row: " ".join(row["nodes"])),
)
