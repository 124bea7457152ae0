"""`ether log verify` and `ether log gc`: whether a journal is what was written, and how it stays small."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ether.cli.common.bus_options import BusAddress
from ether.cli.common.connection import cluster_at, joined
from ether.cli.common.exit_code import ExitCode
from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.journal.source import JournalOptions
from ether.cli.journal.timestamps import moment_text, parse_duration
from ether.text_io.terminal import say
from ether_broker.discovery.listening import is_listening
from ether_broker.envelope.status import Status
from ether_broker.errors import BrokerUnavailable, JournalLocked, JournalUnavailable, UsageError
from ether_broker.transport.endpoint import default_endpoint

if TYPE_CHECKING:
    from ether_broker.journal.journal import Removed

__all__ = ["gc", "verify"]

_DIGITS = 64
"""Of a SHA-256 in hexadecimal."""
_LONGEST = 3600.0
"""Seconds that a broker may take to give up the old part of its journal."""


@with_options
def verify(
    *,
    expect: Annotated[
        str | None, typer.Option(metavar="HASH", help="A hash that it printed before: it has to be in the chain still.")
    ] = None,
    source: JournalOptions,
    out: Output,
) -> None:
    """Prove that the journal is what was written, and print its last hash.

    Exit code 1 if it is not; the first row that is wrong is named. Whoever may write the file can also compute the
    whole chain again: only a hash that is kept elsewhere, and given with --expect, shows that.
    """
    known = None if expect is None else _hash(expect)
    with source.opened(out) as trail:
        verdict = trail.verify(known)
    problem = verdict.problem
    out.value({"whole": problem is None, **asdict(verdict)}, "" if problem else verdict.hash)
    if problem is not None:
        if out.is_text:
            say(f"ether: {problem.flaw}: {problem.message}")
            say(
                f"  commit {problem.seq}, number {problem.number}; what is before it is whole, up to the hash {verdict.hash}"
            )
        raise typer.Exit(ExitCode.FAILED)
    out.note(
        f"whole: {verdict.commits:,} commits with {verdict.envelopes:,} envelopes, numbers {verdict.first} to "
        f"{verdict.next - 1}{'' if known is None else '; the expected hash is in the chain'}"
    )


@with_options
def gc(
    *,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Give up what passed longer ago: 7d, 12h, 1h30m.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be given up.")] = False,
    source: JournalOptions,
    bus: BusAddress,
    out: Output,
) -> None:
    """Give up the oldest part of the journal; a broker that has it does it while it goes on.

    With --connect, and without --journal, it is that bus's journal, and nothing else is touched. What a broker needs to go
    on stays, however old it is. The chain of hashes goes on from the last commit given up.
    """
    until = time.time() - parse_duration(older_than, "--older-than")
    from ether_broker.journal.sqlite.retention import collect_closed

    url = None if source.journal is not None else _bus_of(source.name, bus.connect, dry_run=dry_run)
    path = source.path() if url is None else None
    if dry_run:
        with source.opened() as trail:
            removed = trail.removable(until)
    elif path is None:
        removed = _ask(replace(bus, connect=url), until, None)
    else:
        try:
            removed = collect_closed(path, until)
        except JournalLocked as error:
            removed = _collect_running(path, until, error, bus)
    file = None if path is None else str(path)
    document = {"journal": file, "bus": url, "dry_run": dry_run, "older_than": until, **removed._asdict()}
    would = "would be given up" if dry_run else "given up"
    where = f"in {file}" if url is None else f"by the broker at {url}"
    text = f"{removed.envelopes:,} envelopes in {removed.commits:,} commits from before {moment_text(until)} {would} {where}"
    out.value(document, text)
    if not removed.commits:
        out.note("what is that old and can be given up is gone already, or a broker needs it to go on")


def _bus_of(name: str | None, connect: str | None, *, dry_run: bool) -> str | None:
    """The bus whose journal is meant where no file is named; None: the cluster's file, as its bus is not there.

    Raises:
        UsageError: a bus is named, and would have to say what it would give up.
    """
    if name is None and connect is not None and connect == os.environ.get("ETHER_CONNECT"):
        name = cluster_at(connect)
    if connect is not None and name is None:
        if dry_run:
            raise UsageError(f"--dry-run reads a file, and {connect} is a bus: name its journal by --journal PATH.")
        return connect
    url = default_endpoint(name or "default")
    return url if not dry_run and is_listening(url) else None


def _hash(text: str) -> str:
    digits = text.strip().lower()
    if not re.fullmatch(rf"[0-9a-f]{{{_DIGITS}}}", digits):
        raise UsageError(
            f"--expect is {text!r} and has to be a hash as `ether log verify` prints it: {_DIGITS} hexadecimal digits."
        )
    return digits


def _collect_running(path: Path, older_than: float, locked: JournalLocked, bus: BusAddress) -> Removed:
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
        return _ask(bus, older_than, identity)
    except (BrokerUnavailable, _OtherJournal):
        msg = f"{locked} Name that broker's address with --connect: it does it while it goes on."
        raise JournalLocked(msg) from None


def _ask(bus: BusAddress, older_than: float, identity: str | None) -> Removed:
    """Have a broker give up the old part of its journal, which has this identity unless that is None.

    Raises:
        JournalUnavailable: it could not, or has another journal or none.
        EtherError: as `joined`.
    """
    from ether_broker.journal.journal import Removed

    with joined(bus) as found:
        params = {"older_than": older_than, "journal": identity}
        response = found.delegate("ether.journal-gc", params, timeout=_LONGEST).result()
    if response.status is Status.COMPLETED:
        return Removed(**response.data)
    message = response.error.message if response.error else response.summary
    kind = _OtherJournal if response.status is Status.REJECTED_CONTEXT else JournalUnavailable
    raise kind(f"The broker at {bus.url or default_endpoint()} has given up nothing of its journal: {message}")


class _OtherJournal(JournalUnavailable):
    """The broker has another journal than the one that is meant, or none."""
