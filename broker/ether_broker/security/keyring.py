"""A keyring: the folder with our own key pair, and with the keys of those who may join.

    KEYS/                    0700
      own.key  own.key_secret
      next.key next.key_secret    only while `ether keys rotate --prepare` waits for the switch
      previous.key                the public key that was ours before; who is in with it stays
      allowed/NAME.key            a public key, and which nodes it may be

Every write is atomic, and a running broker takes it up by itself within `RELOAD` seconds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ether_broker.errors import InvalidKey
from ether_broker.name_hint import nearest
from ether_broker.security.keys import (
    PUBLIC,
    SECRET,
    KeyPair,
    PublicKey,
    check_key,
    check_name,
    check_private,
    fingerprint,
    write_atomically,
)

__all__ = ["RELOAD", "Keyring", "default_folder", "default_nodes"]

logger = logging.getLogger("ether.security")

RELOAD: Final = 0.2
"""Seconds between two looks at the folder, at least."""
_OWN: Final = "own"
_NEXT: Final = "next"
_PREVIOUS: Final = "previous"
_ALLOWED: Final = "allowed"
_RESERVED: Final = frozenset({_OWN, _NEXT, _PREVIOUS})
_SETTLED: Final = 2_000_000_000
"""Nanoseconds after which a file's time tells of every change; a later one may fall into the same tick of the clock."""
_Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    """The contents of the folder when it was last read."""

    own: KeyPair
    prepared: KeyPair | None
    previous: PublicKey | None
    allowed: Mapping[str, PublicKey]
    """{key: its entry}"""


class Keyring:
    """A folder of keys: one's own pair, and those of others that may join; any thread may use it.

    Promises: what `ether keys` changes in the folder holds here within `RELOAD` seconds of the next question. A file in
    `allowed` that cannot be read allows nobody. When the folder as a whole cannot be read, what was known stays as it is
    for those who are in (a full table of files must not throw everybody out), and `trouble` says so: then nobody
    new is to be let in.

    Args:
        folder: made by `create`.
        extra: {public key: node name} that are allowed beside those of the folder.

    Raises:
        InvalidKey: there is no such folder, others may read or change it, or our own pair cannot be used.
    """

    def __init__(self, folder: Path | str, *, extra: Mapping[str, str] | None = None) -> None:
        self.folder: Path = Path(folder).expanduser()
        self.allow_beside(extra or {})
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._stamp: _Stamp | None = None
        self._told: set[str] = set()
        self.trouble: str = ""
        """Why the folder cannot be read at the moment; empty when it can."""
        try:
            self._contents = self._read()
        except FileNotFoundError as error:
            raise InvalidKey(f"There are no keys in {self.folder}: `ether keys new --keys {self.folder}`.") from error
        except OSError as error:
            raise InvalidKey(f"{self.folder} cannot be read: {error.strerror or error}.") from error

    @classmethod
    def create(cls, folder: Path | str, name: str) -> Keyring:
        """Make a folder with a new pair of that name.

        Raises:
            InvalidKey: there is a pair already, or the name is none; nothing is changed then.
            OSError: the folder cannot be made.
        """
        path = Path(folder).expanduser()
        check_name(name)
        if (path / f"{_OWN}{SECRET}").exists():
            raise InvalidKey(f"There is a key pair in {path} already: `ether keys rotate` replaces it.")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(path, path.stat())
        (path / _ALLOWED).mkdir(mode=0o700, exist_ok=True)
        KeyPair.new(name).write(path, _OWN)
        return cls(path)

    # -- what it has ---------------------------------------------------------------------------------------------

    @property
    def own(self) -> KeyPair:
        """Our own pair."""
        return self._current().own

    @property
    def prepared(self) -> KeyPair | None:
        """The pair that `switch` will make our own."""
        return self._current().prepared

    @property
    def previous(self) -> PublicKey | None:
        """The public key that was our own before the last `switch`."""
        return self._current().previous

    @property
    def public_keys(self) -> tuple[str, ...]:
        """Our own public key, and the next one if there is one: who connects to us should know both."""
        contents = self._current()
        pairs = (contents.own,) if contents.prepared is None else (contents.own, contents.prepared)
        return tuple(pair.public for pair in pairs)

    @property
    def allowed(self) -> list[PublicKey]:
        """The keys in `allowed`, by name."""
        return sorted(self._current().allowed.values(), key=lambda entry: entry.name)

    def find(self, key: str) -> PublicKey | None:
        """What a key is allowed, or None for one that is not; our own may be any node, and so may the one before it."""
        contents = self._current()
        ours = (contents.own, contents.prepared, contents.previous)
        if any(pair is not None and pair.shared.text == key for pair in ours):
            return PublicKey(key, contents.own.name, ("*",))
        return contents.allowed.get(key) or self._extra.get(key)

    def allow_beside(self, extra: Mapping[str, str]) -> None:
        """Allow these keys beside those of the folder, and none of those that were before: {public key: node name}.

        Raises:
            InvalidKey: one is no key.
        """
        self._extra = {key: PublicKey(check_key(key), node, (node,)) for key, node in extra.items()}

    # -- changes -------------------------------------------------------------------------------------------------

    def allow(self, key: str, name: str, nodes: Iterable[str] = ()) -> PublicKey:
        """Let a key in.

        Args:
            key: the public one.
            name: of the entry; a second key for the same nodes has another name.
            nodes: patterns of the node names that it may take; none: `NAME` and `NAME/…`.

        Raises:
            InvalidKey: the name has another key, the key has another name, or one of them is none.
            OSError: the folder cannot be written.
        """
        entry = PublicKey(check_key(key), check_name(name), tuple(nodes) or default_nodes(name))
        if name in _RESERVED:
            raise InvalidKey(f"{name!r} is what the keyring calls a key of its own: give another --name.")
        for pattern in entry.nodes:
            if not pattern or any(character in pattern for character in ' "\n\r\t'):
                raise InvalidKey(f"{pattern!r} is no pattern of node names: write such as 'builder-*'.")
        for known in self._reread().allowed.values():
            if known.name == name and known.text != key:
                raise InvalidKey(f"{name!r} is the key {known.fingerprint}: revoke it first, or give another --name.")
            if known.text == key and known.name != name:
                raise InvalidKey(f"The key {known.fingerprint} is allowed as {known.name!r}: revoke it first.")
        folder = self.folder / _ALLOWED
        folder.mkdir(mode=0o700, exist_ok=True)
        write_atomically(folder / f"{name}{PUBLIC}", entry.file_text(), 0o644)
        self._reread()
        return entry

    def revoke(self, which: str) -> PublicKey:
        """Take a key out, by its name, its fingerprint or itself; `previous` is the one that was ours.

        Raises:
            InvalidKey: there is no such key.
            OSError: the folder cannot be written.
        """
        contents = self._reread()
        entries = contents.allowed.values()
        if contents.previous and which in (_PREVIOUS, contents.previous.fingerprint, contents.previous.text):
            (self.folder / f"{_PREVIOUS}{PUBLIC}").unlink(missing_ok=True)
            self._reread()
            return contents.previous
        for entry in entries:
            if which in (entry.name, entry.fingerprint, entry.text):
                (self.folder / _ALLOWED / f"{entry.name}{PUBLIC}").unlink(missing_ok=True)
                self._reread()
                return entry
        raise InvalidKey(f"No key {which!r} is allowed here.{nearest(which, (entry.name for entry in entries))}")

    def prepare(self) -> KeyPair:
        """Make the pair that is to follow our own, unless there is one; it is handed out before it is used."""
        prepared = self._reread().prepared
        if prepared is None:
            prepared = KeyPair.new(self.own.name)
            prepared.write(self.folder, _NEXT)
            self._reread()
        return prepared

    def switch(self) -> KeyPair:
        """Make the prepared pair our own. Of the former one the public key stays, as `previous`, until the next switch.

        Raises:
            OSError: the folder cannot be written.
        """
        pair, former = self.prepare(), self.own
        write_atomically(self.folder / f"{_PREVIOUS}{PUBLIC}", former.shared.file_text(), 0o644)
        pair.write(self.folder, _OWN)
        for suffix in (SECRET, PUBLIC):
            (self.folder / f"{_NEXT}{suffix}").unlink(missing_ok=True)
        self._reread()
        return pair

    # -- reading -------------------------------------------------------------------------------------------------

    def _current(self) -> _Contents:
        if time.monotonic() - self._read_at >= RELOAD and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._contents

    def _reread(self) -> _Contents:
        """Read it now: whoever is about to change it must know what is there."""
        with self._lock:
            self._stamp = None
            self._refresh()
        if self.trouble:
            raise InvalidKey(self.trouble)
        return self._contents

    def _refresh(self) -> None:
        try:
            if self._stamp is None or self._stamp != self._look():
                self._contents = self._read()
            trouble = ""
        except (OSError, InvalidKey) as error:
            trouble = f"{self.folder} cannot be read: {error}"
            if not self.trouble:
                logger.warning("%s; nobody new is let in until it can", trouble)
        self.trouble = trouble
        self._read_at = time.monotonic()

    def _look(self) -> _Stamp | None:
        """What tells of a change; None when one could hide behind the clock's tick."""
        found = [_trace(str(self.folder), self.folder.stat())]
        for folder in (self.folder, self.folder / _ALLOWED):
            if folder != self.folder and not folder.is_dir():
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # a draft that has got its name since
                        found.append(_trace(entry.path, entry.stat()))
        latest = max(changed for _, changed, _, _ in found)
        return None if time.time_ns() - latest < _SETTLED else tuple(sorted(found))

    def _read(self) -> _Contents:
        stamp = self._look()
        check_private(self.folder, self.folder.stat())
        own = KeyPair.read(self.folder / f"{_OWN}{SECRET}")
        next_path = self.folder / f"{_NEXT}{SECRET}"
        prepared = KeyPair.read(next_path) if next_path.exists() else None
        previous_path = self.folder / f"{_PREVIOUS}{PUBLIC}"
        previous = PublicKey.read(previous_path) if previous_path.exists() else None
        allowed: dict[str, PublicKey] = {}
        for path in sorted((self.folder / _ALLOWED).glob(f"[!.]*{PUBLIC}")):
            try:
                entry = _entry(path)
            except InvalidKey as error:
                self._complain(path, error)
            else:
                allowed.setdefault(entry.text, entry)
        self._stamp = stamp
        self._read_at = time.monotonic()
        return _Contents(own, prepared, previous, MappingProxyType(allowed))

    def _complain(self, path: Path, error: InvalidKey) -> None:
        """Tell once of a file that allows nobody; one that has gone since the folder was listed is no trouble."""
        if str(error) not in self._told and path.exists():
            self._told.add(str(error))
            logger.warning("%s It allows nobody.", error)

    def __repr__(self) -> str:
        return f"<Keyring {self.folder} of {self._contents.own.name}, {fingerprint(self._contents.own.public)}>"


def default_nodes(name: str) -> tuple[str, ...]:
    """The node names that a key may take unless something else was said: its own name, and what is below it."""
    return (name, f"{name}/*")


def default_folder() -> Path:
    """This user's keys: in XDG_CONFIG_HOME, or ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "ether" / "keys"


def permits(entry: PublicKey, node: str) -> bool:
    """Whether a key may be a node of that name."""
    return any(fnmatchcase(node, pattern) for pattern in entry.nodes)


def _trace(path: str, info: os.stat_result) -> tuple[str, int, int, int]:
    return path, info.st_ctime_ns, info.st_mode, info.st_ino


def _entry(path: Path) -> PublicKey:
    found = PublicKey.read(path)
    name = path.name.removesuffix(PUBLIC)
    return PublicKey(found.text, name, found.nodes or default_nodes(name))
