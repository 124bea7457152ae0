"""`ether log verify` and `ether log gc`: whether a journal is what was written, and how it stays small."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ether.cli.exit_code import ExitCode
from ether.cli.journal import ClusterOption, JournalOption, journal_path, opened
from ether.cli.moment import moment_text, parse_duration
from ether.cli.options import ConnectOption, FormatOption, KeysOption, ServerKeyOption, output_of
from ether.terminal import say
from ether_broker.endpoint import default_endpoint
from ether_broker.errors import BrokerUnavailable, JournalLocked, JournalUnavailable, UsageError
from ether_broker.status import Status

if TYPE_CHECKING:
    from pathlib import Path

    from ether_broker.journal.retention import Removed
    from ether_broker.journal.verify import Verdict

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

    What a broker needs to go on stays, however old it is. The chain of hashes goes on from the last commit given up.
    """
    out = output_of(ctx, output_format)
    until = time.time() - parse_duration(older_than, "--older-than")
    path = journal_path(journal, name)
    from ether_broker.journal.retention import collect_closed

    if dry_run:
        with opened(journal, name) as trail:
            removed = trail.removable(until)
    else:
        try:
            removed = collect_closed(path, until)
        except JournalLocked as error:
            url = connect or (default_endpoint(name or "default") if journal is None else None)
            removed = _collect_running(path, until, error, url, keys=keys, server_key=server_key)
    document = {"dry_run": dry_run, "older_than": until, **removed._asdict()}
    would = "would be given up" if dry_run else "given up"
    text = f"{removed.envelopes:,} envelopes in {removed.commits:,} commits from before {moment_text(until)} {would}"
    out.value(document, text)
    if not removed.commits:
        out.note("what is that old and can be given up is gone already, or a broker needs it to go on")


def _hash(text: str) -> str:
    digits = text.strip().lower()
    if len(digits) != _DIGITS or not set(digits) <= set("0123456789abcdef"):
        msg = (
            f"--expect is {text!r} and has to be a hash as `ether log verify` prints it: {_DIGITS} hexadecimal digits."
        )
        raise UsageError(msg)
    return digits


def _document(verdict: Verdict, *, whole: bool) -> dict[str, Any]:
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
    from ether.cli.connection import joined
    from ether_broker.journal.reader import JournalReader
    from ether_broker.journal.retention import Removed

    with JournalReader(path) as reader:
        identity = reader.identity
    try:
        with joined(url, keys=keys, server_key=server_key) as bus:
            params = {"older_than": older_than, "journal": identity}
            response = bus.delegate("ether.journal-gc", params, timeout=_LONGEST).result()
    except BrokerUnavailable:
        raise _in_use(locked) from None
    if response.status is Status.COMPLETED:
        return Removed(**response.data)
    if response.status is Status.REJECTED_CONTEXT:  # it has another journal, or none
        raise _in_use(locked)
    message = response.error.message if response.error else response.summary
    raise JournalUnavailable(f"The broker has not given up the old part of {path}: {message}")


def _in_use(error: JournalLocked) -> JournalLocked:
    return JournalLocked(f"{error} Name that broker's address with --connect: it does it while it goes on.")
