from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import zmq
import zmq.auth

from ether_broker.errors import InvalidKey
from ether_broker.security import keys
from ether_broker.security.keys import KeyPair, PublicKey, check_name, fingerprint, write_atomically

KEY = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"  # of the manual page zmq_curve(7)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def pair() -> KeyPair:
    return KeyPair.new("laptop")


def test_a_pair_survives_its_files(pair, tmp_path):
    pair.write(tmp_path, "own")

    assert KeyPair.read(tmp_path / "own.key_secret") == pair
    assert PublicKey.read(tmp_path / "own.key") == pair.shared


@pytest.mark.parametrize("umask", [0, 0o077, 0o277])
def test_only_the_owner_may_read_a_secret_whatever_the_umask_says(pair, tmp_path, umask):
    before = os.umask(umask)
    try:
        pair.write(tmp_path, "open")
    finally:
        os.umask(before)

    assert mode(tmp_path / "open.key_secret") == 0o600
    assert mode(tmp_path / "open.key") == 0o644


def test_zeromqs_own_tools_read_our_files(pair, tmp_path):
    pair.write(tmp_path, "own")

    found = zmq.auth.load_certificate(tmp_path / "own.key_secret")

    assert found == (pair.public.encode(), pair.secret.encode())


def test_we_read_the_files_of_zeromqs_own_tools(tmp_path):
    public, secret = zmq.auth.create_certificates(tmp_path, "theirs")
    Path(secret).chmod(0o600)

    assert KeyPair.read(Path(secret)).shared == PublicKey.read(Path(public))


def test_the_secret_is_shown_nowhere_but_in_its_file(pair, tmp_path):
    pair.write(tmp_path, "own")

    assert pair.secret not in repr(pair)
    assert pair.secret not in (tmp_path / "own.key").read_text()


@pytest.mark.parametrize("given", [0o640, 0o604, 0o660])
def test_a_secret_that_others_may_read_is_refused_with_the_fix(pair, tmp_path, given):
    pair.write(tmp_path, "own")
    path = tmp_path / "own.key_secret"
    path.chmod(given)

    with pytest.raises(InvalidKey, match=f"chmod 600 {path}"):
        KeyPair.read(path)


def test_halves_that_do_not_belong_together_are_refused(pair, tmp_path):
    KeyPair(KeyPair.new().public, pair.secret).write(tmp_path, "own")

    with pytest.raises(InvalidKey, match="does not belong to its secret key"):
        KeyPair.read(tmp_path / "own.key_secret")


def test_a_public_file_is_no_pair(pair, tmp_path):
    pair.write(tmp_path, "own")
    (tmp_path / "own.key").chmod(0o600)

    with pytest.raises(InvalidKey, match="has no secret key"):
        KeyPair.read(tmp_path / "own.key")


@pytest.mark.parametrize("text", ["", "public-key = ", 'curve\n    public-key = "short"', "x" * 5000])
def test_what_is_no_key_is_refused_with_its_path(tmp_path, text):
    path = tmp_path / "broken.key"
    path.write_text(text)

    with pytest.raises(InvalidKey, match=str(path)):
        PublicKey.read(path)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InvalidKey, match="cannot be read"):
        PublicKey.read(tmp_path / "none.key")


def test_a_key_is_given_as_text_or_as_a_file(pair, tmp_path):
    pair.write(tmp_path, "own")

    assert PublicKey.of(KEY).text == KEY
    assert PublicKey.of(str(tmp_path / "own.key")) == pair.shared


def test_the_fingerprint_is_sixteen_hex_digits_in_groups():
    assert fingerprint(KEY) == "9dfd-9fe1-3af9-d0ce"
    assert [len(group) for group in fingerprint(KEY).split("-")] == [4, 4, 4, 4]
    assert int(fingerprint(KEY).replace("-", ""), 16) >= 0


def test_two_keys_have_two_fingerprints():
    assert len({KeyPair.new().fingerprint for _ in range(50)}) == 50


@pytest.mark.parametrize("name", ["", "-x", "a/b", "..", "a b", "x" * 65, 'a"b', "a\n"])
def test_a_name_that_could_be_no_file_is_refused(name):
    with pytest.raises(InvalidKey, match="no name for a key"):
        check_name(name)


def test_without_curve_the_fix_is_told(monkeypatch):
    monkeypatch.setattr(zmq, "has", lambda _name: False)

    with pytest.raises(InvalidKey, match="cannot encrypt"):
        KeyPair.new()


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "own.key"
    path.write_text("before")

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keys.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "after", 0o600)

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_no_public_key_looks_like_an_option(monkeypatch):
    found = iter([(b"-" + b"x" * 39, b"s" * 40), (b"y" * 40, b"t" * 40)])
    monkeypatch.setattr(zmq, "curve_keypair", lambda: next(found))

    assert KeyPair.new().public == "y" * 40
