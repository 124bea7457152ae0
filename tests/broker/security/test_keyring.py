from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from ether_broker.errors import InvalidKey
from ether_broker.security import keyring as module
from ether_broker.security.keyring import RELOAD, Keyring, default_folder, permits
from ether_broker.security.keys import KeyPair
from tests.support import wait_until

ALICE, BOB = KeyPair.new("alice"), KeyPair.new("bob")


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "keys", "broker")


def again(ring: Keyring) -> Keyring:
    """The folder as another process sees it."""
    return Keyring(ring.folder)


def test_a_new_keyring_is_its_owners_alone_and_lets_nobody_in(ring):
    assert stat.S_IMODE(ring.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((ring.folder / "allowed").stat().st_mode) == 0o700
    assert ring.allowed == []
    assert ring.find(ALICE.public) is None


def test_our_own_key_may_be_any_node(ring):
    entry = ring.find(ring.own.public)

    assert entry is not None
    assert permits(entry, "whatever")


def test_an_allowed_key_may_be_its_name_and_what_is_below_it(ring):
    entry = ring.allow(ALICE.public, "alice")

    assert [permits(entry, node) for node in ("alice", "alice/1", "alicex", "bob", "Alice")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert again(ring).find(ALICE.public) == entry


def test_patterns_say_which_nodes_a_key_may_be(ring):
    entry = ring.allow(ALICE.public, "alice", ["build-*", "test"])

    assert [permits(entry, node) for node in ("build-1", "test", "test-1", "alice")] == [True, True, False, False]
    assert again(ring).find(ALICE.public) == entry


def test_two_keys_may_be_the_same_node_while_one_replaces_the_other(ring):
    ring.allow(ALICE.public, "alice")
    ring.allow(BOB.public, "alice.2", ["alice"])

    assert all(permits(ring.find(pair.public), "alice") for pair in (ALICE, BOB))


def test_a_name_is_not_given_to_another_key_silently(ring):
    ring.allow(ALICE.public, "alice")

    with pytest.raises(InvalidKey, match="revoke it first"):
        ring.allow(BOB.public, "alice")
    assert ring.find(BOB.public) is None


def test_a_key_has_one_entry(ring):
    ring.allow(ALICE.public, "alice")

    with pytest.raises(InvalidKey, match="allowed as 'alice'"):
        ring.allow(ALICE.public, "second")


@pytest.mark.parametrize("name", ["own", "next", "previous"])
def test_names_of_the_keyrings_own_keys_are_reserved(ring, name):
    with pytest.raises(InvalidKey, match="another --name"):
        ring.allow(ALICE.public, name)


@pytest.mark.parametrize("pattern", ["", "a b", 'a"', "a\nb"])
def test_a_pattern_that_would_break_the_file_is_refused(ring, pattern):
    with pytest.raises(InvalidKey, match="no pattern"):
        ring.allow(ALICE.public, "alice", [pattern])


@pytest.mark.parametrize("which", ["name", "fingerprint", "public"])
def test_a_key_is_revoked_by_name_fingerprint_or_itself(ring, which):
    ring.allow(ALICE.public, "alice")

    ring.revoke(getattr(ALICE, which))

    assert ring.find(ALICE.public) is None
    assert again(ring).allowed == []


def test_revoking_nobody_names_the_nearest(ring):
    ring.allow(ALICE.public, "alice")

    with pytest.raises(InvalidKey, match="Did you mean 'alice'"):
        ring.revoke("alcie")


@pytest.mark.alone
def test_what_another_process_changes_is_taken_up_within_a_second(ring):
    other = again(ring)
    started = time.monotonic()

    other.allow(ALICE.public, "alice")
    wait_until(lambda: ring.find(ALICE.public), 1.0)
    other.revoke("alice")
    wait_until(lambda: ring.find(ALICE.public) is None, 1.0)

    assert time.monotonic() - started < 1.0 + 2 * RELOAD


def test_a_file_that_is_replaced_with_its_old_time_is_noticed(ring):
    ring.allow(ALICE.public, "alice")
    path = ring.folder / "allowed" / "alice.key"
    info = path.stat()
    path.write_text(path.read_text().replace(ALICE.public, BOB.public))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))

    wait_until(lambda: ring.find(BOB.public), 1.0)
    assert ring.find(ALICE.public) is None


def test_the_folder_is_looked_at_only_so_often(ring, monkeypatch):
    looks = []
    monkeypatch.setattr(ring, "_refresh", lambda: looks.append(1))
    ring._read_at = time.monotonic() + 60

    for _ in range(1000):
        ring.find(ALICE.public)

    assert looks == []


def test_an_unchanged_folder_is_not_read_again(ring, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED", 0)
    ring._reread()
    monkeypatch.setattr(ring, "_read", lambda: pytest.fail("it was read again"))

    ring._refresh()


def test_a_broken_file_lets_nobody_in_and_keeps_nobody_out(ring, caplog):
    ring.allow(ALICE.public, "alice")
    (ring.folder / "allowed" / "broken.key").write_text("what is this?")

    ring._reread()
    ring._reread()

    assert [entry.name for entry in ring.allowed] == ["alice"]
    assert caplog.text.count("It allows nobody") == 1


def test_a_folder_that_cannot_be_read_throws_nobody_out_and_says_so(ring):
    ring.allow(ALICE.public, "alice")
    ring.folder.chmod(0o755)

    wait_until(lambda: ring.find(ALICE.public) and ring.trouble, 1.0)
    assert "chmod 700" in ring.trouble

    ring.folder.chmod(0o700)
    wait_until(lambda: ring.find(ALICE.public) and not ring.trouble, 1.0)


def test_a_keyring_that_others_may_read_is_refused(ring):
    ring.folder.chmod(0o750)

    with pytest.raises(InvalidKey, match="chmod 700"):
        again(ring)


def test_a_folder_without_keys_says_how_to_make_them(tmp_path):
    with pytest.raises(InvalidKey, match="ether keys new"):
        Keyring(tmp_path / "none")


def test_keys_are_never_overwritten_by_new_ones(ring):
    with pytest.raises(InvalidKey, match="ether keys rotate"):
        Keyring.create(ring.folder, "broker")


def test_a_prepared_pair_is_kept_until_it_becomes_our_own(ring):
    former = ring.own
    prepared = ring.prepare()

    assert ring.prepare() == prepared
    assert ring.own == former
    assert ring.public_keys == (former.public, prepared.public)

    assert ring.switch() == prepared
    assert again(ring).own == prepared
    assert ring.public_keys == (prepared.public,)
    assert not (ring.folder / "next.key_secret").exists()


def test_who_is_in_with_our_former_key_stays_until_it_is_revoked(ring):
    former = ring.own
    ring.switch()

    assert ring.find(former.public) is not None
    assert not any(former.secret in path.read_text() for path in ring.folder.glob("*.key*"))

    ring.revoke("previous")
    assert ring.find(former.public) is None


def test_keys_that_were_handed_over_in_memory_are_allowed_as_one_node(ring):
    ring = Keyring(ring.folder, extra={ALICE.public: "node-1"})

    entry = ring.find(ALICE.public)

    assert entry is not None
    assert (permits(entry, "node-1"), permits(entry, "node-2")) == (True, False)


def test_the_default_folder_follows_the_desktops_rules(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "ether" / "keys"

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_folder() == Path("/home/somebody/.config/ether/keys")


def test_what_is_shown_of_a_keyring_has_no_secret(ring):
    assert ring.own.fingerprint in repr(ring)
    assert ring.own.secret not in repr(ring) + repr(ring.own)
