"""`ether keys`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ether_broker.security.keyring import Keyring
from ether_broker.security.keys import PublicKey
from tests.cli.command import Command, table


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return str(tmp_path / "broker")


@pytest.fixture
def laptop(alone: Command, tmp_path: Path) -> str:
    """The public key's file of somebody else."""
    folder = str(tmp_path / "laptop")
    alone("keys", "new", "laptop", "--keys", folder)
    path = tmp_path / "laptop.key"
    path.write_text(alone("keys", "show", "--keys", folder).out)
    return str(path)


def test_new_keys_are_made_once_and_for_their_owner_alone(alone: Command, keys: str) -> None:
    done = alone("keys", "new", "office", "--keys", keys)
    again = alone("keys", "new", "office", "--keys", keys)

    assert done.code == 0
    assert done.out.split()[0] == "office"
    assert stat.S_IMODE(Path(keys, "own.key_secret").stat().st_mode) == 0o600
    assert again.code == 2
    assert "ether keys rotate" in again.err


def test_without_a_name_a_key_has_the_machines(alone: Command, keys: str) -> None:
    done = alone("keys", "new", "--keys", keys, "-o", "json")

    assert done.code == 0
    assert done.json["name"] == Keyring(keys).own.name != ""


def test_the_folder_comes_from_the_environment_or_is_the_users_own(alone: Command, tmp_path: Path) -> None:
    alone("keys", "new", "one", ETHER_KEYS=str(tmp_path / "one"))
    alone("keys", "new", "two", XDG_CONFIG_HOME=str(tmp_path))

    assert Keyring(tmp_path / "one").own.name == "one"
    assert Keyring(tmp_path / "ether" / "keys").own.name == "two"


def test_what_is_shown_is_a_file_that_can_be_allowed(alone: Command, keys: str, laptop: str) -> None:
    alone("keys", "new", "office", "--keys", keys)

    done = alone("keys", "allow", laptop, "--keys", keys)

    assert done.code == 0
    assert done.out.endswith("may be laptop, laptop/*\n")
    assert [entry.name for entry in Keyring(keys).allowed] == ["laptop"]


def test_a_key_can_be_given_as_text_with_a_name_and_patterns(alone: Command, keys: str, laptop: str) -> None:
    alone("keys", "new", "office", "--keys", keys)
    text = PublicKey.read(Path(laptop)).text

    nameless = alone("keys", "allow", text, "--keys", keys)
    done = alone(
        "keys", "allow", text, "--name", "ci", "--node", "ci-*", "--node", "nightly", "--keys", keys, "-o", "json"
    )

    assert (nameless.code, "--name" in nameless.err) == (2, True)
    assert done.json["nodes"] == ["ci-*", "nightly"]


def test_keys_are_listed_without_secrets(alone: Command, keys: str, laptop: str) -> None:
    alone("keys", "new", "office", "--keys", keys)
    alone("keys", "allow", laptop, "--keys", keys)
    secret = Keyring(keys).own.secret

    shown = alone("keys", "list", "--keys", keys)
    listed = alone("keys", "list", "--keys", keys, "-o", "jsonl")

    assert [row[:2] for row in table(shown)[1:]] == [["own", "office"], ["allowed", "laptop"]]
    assert [row["entry"] for row in listed.lines] == ["own", "allowed"]
    assert secret not in shown.out + listed.out


def test_a_revoked_key_is_gone_and_an_unknown_one_names_the_nearest(alone: Command, keys: str, laptop: str) -> None:
    alone("keys", "new", "office", "--keys", keys)
    alone("keys", "allow", laptop, "--keys", keys)

    wrong = alone("keys", "revoke", "laptpo", "--keys", keys)
    done = alone("keys", "revoke", "laptop", "--keys", keys)

    assert (wrong.code, "Did you mean 'laptop'?" in wrong.err) == (2, True)
    assert done.out.endswith("revoked\n")
    assert Keyring(keys).allowed == []


def test_a_pair_is_rotated_in_two_steps(alone: Command, keys: str) -> None:
    alone("keys", "new", "office", "--keys", keys)
    before = Keyring(keys).own

    prepared = alone("keys", "rotate", "--prepare", "--keys", keys, "-o", "json").json
    assert Keyring(keys).own == before
    rotated = alone("keys", "rotate", "--keys", keys, "-o", "json").json

    assert prepared["key"] == rotated["key"] == Keyring(keys).own.public != before.public
    assert [row[0] for row in table(alone("keys", "list", "--keys", keys))[1:]] == ["own", "previous"]


@pytest.mark.parametrize("words", [("show",), ("list",), ("allow", "x" * 40), ("revoke", "x"), ("rotate",)])
def test_where_no_keys_are_the_fix_is_told(alone: Command, keys: str, words: tuple[str, ...]) -> None:
    done = alone("keys", *words, "--keys", keys)

    assert done.code == 2
    assert "ether keys new" in done.err
