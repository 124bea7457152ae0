"""`ether log verify` and `ether log gc`: whether a journal is what was written, and how it stays small."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import ConnectOption, FormatOption, KeysOption, ServerKeyOption, output_of
from ether.cli.journal.source import ClusterOption, JournalOption, journal_path, opened
from ether.cli.journal.timestamps import moment_text, parse_duration
from ether.text_io.terminal import say
from ether_broker.envelope.status import Status
from ether_broker.errors import BrokerUnavailable, JournalLocked, JournalUnavailable, UsageError
from ether_broker.transport.endpoint import default_endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from ether_broker.journal.journal import Removed
    from ether_broker.journal.sqlite.verify import Verification

__all__ = ["add_to"]

_DIGITS = 64
"""Of a SHA-256 in hexadecimal."""
_LONGEST = 3600.0
"""Seconds that a broker may take to give up the old part of its journal."""


def add_to(group: typer.Typer) -> None:
    """Give the group these commands."""
    group.command()(verify)
    group.command()(gc)


def verify(
    ctx: typer.Context,
    *,
    expect: Annotated[
        str | None,
        typer.Option(
            "--expect", metavar="HASH", help="A hash that it printed before: it has to be in the chain still."
        ),
    ] = None,
    journal: JournalOption = None,
    name: ClusterOption = None,
    output_format: FormatOption = None,
) -> None:
    """Prove that the journal is what was written, and print its last hash.

    Exit code 1 if it is not; the first row that is wrong is named. Whoever may write the file can also make the chain
    anew: only a hash that is kept elsewhere, and given with --expect, shows that.
    """
    out = output_of(ctx, output_format)
    known = None if expect is None else _hash(expect)
    with opened(journal, name) as trail:
        verdict = trail.verify(known)
    whole = verdict.problem is None
    out.value(_document(verdict, whole=whole), verdict.hash if whole else "")
    if verdict.problem is not None:
        if out.is_text:
            problem = verdict.problem
            say(f"ether: {problem.flaw}: {problem.message}")
            say(
                f"  commit {problem.seq}, number {problem.number}; what is before it is whole, up to the hash {verdict.hash}"
            )
        raise typer.Exit(ExitCode.FAILED)
    out.note(
        f"whole: {verdict.commits:,} commits with {verdict.envelopes:,} envelopes, numbers {verdict.first} to "
        f"{verdict.next - 1}{'' if known is None else '; the expected hash is in the chain'}"
    )


def gc(
    ctx: typer.Context,
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Give up what passed longer ago: 7d, 12h, 1h30m.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be given up.")] = False,
    journal: JournalOption = None,
    name: ClusterOption = None,
    connect: ConnectOption = None,
    keys: KeysOption = None,
    server_key: ServerKeyOption = None,
    output_format: FormatOption = None,
) -> None:
    """Give up the oldest part of the journal; a broker that has it does it while it goes on.

    With --connect, and without --journal, it is that bus's journal, and nothing else is touched. What a broker needs to go
    on stays, however old it is. The chain of hashes goes on from the last commit given up.
    """
    out = output_of(ctx, output_format)
    until = time.time() - parse_duration(older_than, "--older-than")
    from ether_broker.journal.sqlite.retention import collect_closed

    bus = None if journal is not None else _bus_of(name, connect, dry_run=dry_run)
    path = journal_path(journal, name) if bus is None else None
    if dry_run:
        with opened(journal, name) as trail:
            removed = trail.removable(until)
    elif path is None:
        removed = _ask(bus, until, None, keys=keys, server_key=server_key)
    else:
        try:
            removed = collect_closed(path, until)
        except JournalLocked as error:
            removed = _collect_running(path, until, error, connect, keys=keys, server_key=server_key)
    file = None if path is None else str(path)
    document = {"journal": file, "bus": bus, "dry_run": dry_run, "older_than": until, **removed._asdict()}
    would = "would be given up" if dry_run else "given up"
    where = f"in {file}" if bus is None else f"by the broker at {bus}"
    text = f"{removed.envelopes:,} envelopes in {removed.commits:,} commits from before {moment_text(until)} {would} {where}"
    out.value(document, text)
    if not removed.commits:
        out.note("what is that old and can be given up is gone already, or a broker needs it to go on")


def _bus_of(name: str | None, connect: str | None, *, dry_run: bool) -> str | None:
    """The bus whose journal is meant where no file is named; None: the cluster's file, as its bus is not there.

    Raises:
        UsageError: a bus is named, and would have to say what it would give up.
    """
    from ether.cli.common.connection import is_listening

    if connect is not None and name is None:
        if dry_run:
            raise UsageError(f"--dry-run reads a file, and {connect} is a bus: name its journal by --journal PATH.")
        return connect
    url = default_endpoint(name or "default")
    return url if not dry_run and is_listening(url) else None


def _hash(text: str) -> str:
    digits = text.strip().lower()
    if len(digits) != _DIGITS or not set(digits) <= set("0123456789abcdef"):
        msg = (
            f"--expect is {text!r} and has to be a hash as `ether log verify` prints it: {_DIGITS} hexadecimal digits."
        )
        raise UsageError(msg)
    return digits


def _document(verdict: Verification, *, whole: bool) -> dict[str, Any]:
    fields = asdict(verdict)
    problem = fields.pop("problem")
    if problem is not None:
        problem["flaw"] = str(problem["flaw"])
    return {"whole": whole, **fields, "problem": problem}


def _collect_running(
    path: Path, older_than: float, locked: JournalLocked, url: str | None, *, keys: str | None, server_key: str | None
) -> Removed:  # fmt: skip
    """Have the broker that has the journal give up the part.

    Raises:
        JournalLocked: no broker with this journal is found at the address.
        JournalUnavailable: it could not.
        EtherError: as `joined`, of an address that was given.
    """
    from ether_broker.journal.sqlite.reader import JournalReader

    with JournalReader(path) as reader:
        identity = reader.identity
    try:
        return _ask(url, older_than, identity, keys=keys, server_key=server_key)
    except (BrokerUnavailable, _OtherJournal):
        msg = f"{locked} Name that broker's address with --connect: it does it while it goes on."
        raise JournalLocked(msg) from None


def _ask(
    url: str | None, older_than: float, identity: str | None, *, keys: str | None, server_key: str | None
) -> Removed:  # fmt: skip
    """Have a broker give up the old part of its journal, which has this identity unless that is None.

    Raises:
        JournalUnavailable: it could not, or has another journal or none.
        EtherError: as `joined`.
    """
    from ether.cli.common.connection import joined
    from ether_broker.journal.journal import Removed

    with joined(url, keys=keys, server_key=server_key) as bus:
        params = {"older_than": older_than, "journal": identity}
        response = bus.delegate("ether.journal-gc", params, timeout=_LONGEST).result()
    if response.status is Status.COMPLETED:
        return Removed(**response.data)
    message = response.error.message if response.error else response.summary
    kind = _OtherJournal if response.status is Status.REJECTED_CONTEXT else JournalUnavailable
    raise kind(f"The broker at {url or default_endpoint()} has given up nothing of its journal: {message}")


class _OtherJournal(JournalUnavailable):
    """The broker has another journal than the one that is meant, or none."""
