"""Key pairs of CURVE (elliptic curve 25519), and their files.

A pair is two files, in the form that ZeroMQ's own tools write and read (ZPL, RFC 4):

    NAME.key          the public key: hand it to whoever should know us
    NAME.key_secret   both keys, mode 0600: whoever has it is us
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import zmq

from ether_broker.errors import InvalidKey

__all__ = ["KeyPair", "PublicKey", "check_key", "check_name", "fingerprint", "require_curve", "write_atomically"]

PUBLIC: Final = ".key"
SECRET: Final = ".key_secret"  # noqa: S105  how a file's name ends
_KEY: Final = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
"""32 bytes in Z85 (ZeroMQ RFC 32)."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_ENTRY: Final = re.compile(r'\s+([a-z-]+)\s*=\s*"([^"]*)"\s*')
_SHOWN: Final = 16
_LONGEST: Final = 4096
"""Bytes of a key's file; nobody's key is longer."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key with the name that its owner, or whoever allowed it, gave it."""

    text: str
    """40 characters of Z85."""
    name: str = ""
    nodes: tuple[str, ...] = ()
    """Patterns of the node names that it may take; only in a keyring's `allowed`."""

    @property
    def shared(self) -> PublicKey:
        """Itself; as a pair's."""
        return self

    @property
    def fingerprint(self) -> str:
        """For people to compare."""
        return fingerprint(self.text)

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Read the contents of a key's file.

        Raises:
            InvalidKey: it has no public key.
        """
        found = _entries(text)
        return cls(check_key(found.get("public-key", "")), found.get("name", ""), tuple(found.get("nodes", "").split()))

    @classmethod
    def read(cls, path: Path) -> PublicKey:
        """Read a file.

        Raises:
            InvalidKey: it cannot be read, or is no key's.
        """
        return _parsed(path, _read(path))

    @classmethod
    def of(cls, text: str) -> PublicKey:
        """A key as it is given on a command line: 40 characters of Z85, or the path of a file.

        Raises:
            InvalidKey: it is neither.
        """
        if _KEY.fullmatch(text) and not Path(text).is_file():
            return cls(text)
        return cls.read(Path(text).expanduser())

    def file_text(self) -> str:
        """What stands in its file; safe to show."""
        nodes = f'    nodes = "{" ".join(self.nodes)}"\n' if self.nodes else ""
        return (
            f"# The public key of {self.name}, fingerprint {self.fingerprint}. It is no secret.\n"
            f'metadata\n    name = "{self.name}"\n{nodes}curve\n    public-key = "{self.text}"\n'
        )


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A public key with its secret key."""

    public: str
    """40 characters of Z85."""
    secret: str = field(repr=False)
    """The same; never shown, logged or sent."""
    name: str = ""

    @classmethod
    def new(cls, name: str = "") -> KeyPair:
        """A new pair, from the operating system's random numbers.

        Raises:
            InvalidKey: this libzmq was built without CURVE, or the name is none.
        """
        require_curve()
        if name:
            check_name(name)
        public, secret = zmq.curve_keypair()
        while public.startswith(b"-"):  # a command line would take it for an option
            public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode(), name)

    @classmethod
    def read(cls, path: Path) -> KeyPair:
        """Read a secret file.

        Raises:
            InvalidKey: it cannot be read, is no pair's, others than its owner may read it, or its halves do not belong
                together.
        """
        text = _read(path, secret=True)
        public = _parsed(path, text)
        found = _entries(text)
        secret = found.get("secret-key", "")
        if not _KEY.fullmatch(secret):
            raise InvalidKey(f"{path} has no secret key: give the file that ends in {SECRET}.")
        require_curve()
        if zmq.curve_public(secret.encode()).decode() != public.text:
            raise InvalidKey(f"{path}: its public key does not belong to its secret key; make a new pair.")
        return cls(public.text, secret, public.name)

    @property
    def shared(self) -> PublicKey:
        """The half that may be handed out."""
        return PublicKey(self.public, self.name)

    @property
    def fingerprint(self) -> str:
        """Of the public key."""
        return fingerprint(self.public)

    def write(self, folder: Path, stem: str) -> None:
        """Write both files, each atomically; the secret one first, which is the whole pair."""
        text = self.shared.file_text().replace("It is no secret.", "Keep this file SECRET: whoever has it is you.")
        text = text.replace("The public key", "The key pair")
        write_atomically(folder / f"{stem}{SECRET}", f'{text}    secret-key = "{self.secret}"\n', 0o600)
        write_atomically(folder / f"{stem}{PUBLIC}", self.shared.file_text(), 0o644)


def fingerprint(key: str) -> str:
    """A key's digest for people: the first 16 hex digits of its sha256, in groups of four.

    It tells two keys apart and is quickly compared by eye or telephone. It is no proof by itself: 64 bits.
    """
    digest = hashlib.sha256(key.encode()).hexdigest()[:_SHOWN]
    return "-".join(digest[start : start + 4] for start in range(0, _SHOWN, 4))


def check_key(text: str) -> str:
    """Return the text if it is a key.

    Raises:
        InvalidKey: it is none.
    """
    if not _KEY.fullmatch(text):
        raise InvalidKey("A key is 40 characters of Z85, as `ether keys show` prints; this is none.")
    return text


def check_name(name: str) -> str:
    """Return the name if a key can have it: it becomes a file's name, and part of node names.

    Raises:
        InvalidKey: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise InvalidKey(f"{name!r} is no name for a key: use letters, digits and _ . @ -, 64 at most, as in 'laptop'.")
    return name


def require_curve() -> None:
    """Make sure that libzmq can encrypt.

    Raises:
        InvalidKey: it was built without CURVE.
    """
    if not zmq.has("curve"):
        raise InvalidKey(
            "This libzmq cannot encrypt: `pip install --force-reinstall pyzmq`, for a wheel that has CURVE."
        )


def write_atomically(path: Path, text: str, mode: int) -> None:
    """Write a file whole or not at all, with this mode from its first moment.

    Raises:
        OSError: the folder cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask says
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def check_private(path: Path, info: os.stat_result) -> None:
    """Make sure that only we, or root, can read or change what is there.

    Raises:
        InvalidKey: others can.
    """
    if info.st_uid not in (os.getuid(), 0):
        raise InvalidKey(f"{path} belongs to another user (id {info.st_uid}): use keys of your own.")
    if info.st_mode & 0o077:
        mode = "700" if stat.S_ISDIR(info.st_mode) else "600"
        raise InvalidKey(f"{path} is open to other users (mode {info.st_mode & 0o777:o}): chmod {mode} {path}")


def _entries(text: str) -> dict[str, str]:
    return {match[1]: match[2] for line in text.splitlines() if (match := _ENTRY.fullmatch(line))}


def _parsed(path: Path, text: str) -> PublicKey:
    try:
        return PublicKey.parse(text)
    except InvalidKey as error:
        raise InvalidKey(f"{path}: {error}") from None


def _read(path: Path, *, secret: bool = False) -> str:
    try:
        with path.open("rb") as file:
            if secret:
                check_private(path, os.fstat(file.fileno()))
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise InvalidKey(f"{path} cannot be read ({error.strerror}): `ether keys new` makes keys.") from error
    if len(data) > _LONGEST:
        raise InvalidKey(f"{path} is too long for a key's file.")
    return data.decode(errors="replace")
