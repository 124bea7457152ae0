"""The broker with its supervisor in a process of its own, and a process that times how brokers start on a journal."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from ether.lab.bench.roles.old_journal import write_past
from ether.lab.harness.role import Info, Role
from ether.node.backends import make_context
from ether.node.embedded_broker import EmbeddedBroker
from ether_actors.supervisor.journal.history import History
from ether_broker.journal.sqlite.journal import SqliteJournal

__all__ = ["Broker", "Restarter"]


class _Brokers(Role):
    """A role that starts brokers in its folder."""

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._folder = Path(options["folder"])
        self._context = make_context()
        self.callback(self._context.destroy, linger=0)


class Broker(_Brokers):
    """A supervisor actor with the broker's socket: what `ether up` runs."""

    def start(self) -> Info:
        """Bind to a free address and supervise."""
        address = f"ipc://{self._folder}/broker" if self.options["transport"] == "ipc" else "tcp://127.0.0.1:*"
        journal = self._folder / "journal.db" if self.options.get("durability") == "journal" else None
        keyring = None
        if self.options.get("secure"):  # one folder of keys for all: the broker lets its own pair in
            from ether_broker.security.keyring import Keyring

            keyring = Keyring.create(self._folder / "keys", "bench")
        host = EmbeddedBroker(address, self._context, None, journal, keyring=keyring)
        self.callback(host.stop)
        return {"endpoint": host.endpoint, "keys": None if keyring is None else str(keyring.folder)}


class Restarter(_Brokers):
    """The role that starts brokers on copies of one old journal, because each start leaves its traces."""

    def __init__(self, options: Info) -> None:
        super().__init__(options)
        self._past = self._folder / "past.db"

    def write(self, rows: int) -> Info:
        """Write the past."""
        return {"open": write_past(self._past, rows), "bytes": self._past.stat().st_size}

    def parts(self) -> Info:
        """Seconds of reading (with its hashes), of the fold, and of packing its state; as `read_history` does them."""
        clock = time.perf_counter
        history, fold = History(), 0.0
        with contextlib.closing(SqliteJournal(self._fresh())) as journal:
            start = clock()
            for step in journal.replay():
                before = clock()
                history.apply(*step)
                fold += clock() - before
            whole = clock() - start
        return {"replay": whole - fold, "fold": fold}

    def begin(self) -> Info:
        """Seconds until a broker is ready, and until the next one is, which has a checkpoint; CPU of the first."""
        journal = self._fresh()
        first, again = self._start(journal), self._start(journal)
        return {**first, "again": again["first"]}

    def _start(self, journal: Path) -> Info:
        before, cpu = time.perf_counter(), time.thread_time()
        host = EmbeddedBroker("tcp://127.0.0.1:*", self._context, None, journal)
        first, used = time.perf_counter() - before, time.thread_time() - cpu
        open_ = host.supervisor.ask(lambda running: len(running.state.ledger))
        host.stop()
        return {"first": first, "cpu": used, "open": open_}

    def _fresh(self) -> Path:
        for file in self._folder.glob("journal.db*"):
            file.unlink()
        return shutil.copyfile(self._past, self._folder / "journal.db")
