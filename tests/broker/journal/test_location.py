"""Where journals are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ether_broker.errors import InvalidSpec
from ether_broker.journal.location import default_journal, known_journals, link_last_started


def test_a_journal_is_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert default_journal() == tmp_path / "ether" / "default" / "journal.db"
    assert default_journal("shop") == tmp_path / "ether" / "shop" / "journal.db"
    assert default_journal("shop", Path("/home/me")) == default_journal("shop")
    assert not (tmp_path / "ether").exists()


def test_the_journals_of_clusters_without_a_name_are_told_apart_by_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    journal = default_journal(origin=Path("/home/me/my shop"))
    assert journal.parent.name == "me-my_shop-88acd90b"
    assert journal.parent.parent == default_journal().parent
    assert default_journal(origin=Path("/home/me/my_shop")) != journal
    assert default_journal(origin=Path(os.fsdecode(b"/home/sh\xf6p"))).parent.name.startswith("home-sh_p-")
    assert len(default_journal(origin=Path("/") / ("x" * 250)).parent.name) == 69

    for made in (journal, default_journal(origin=Path("/srv"))):
        made.parent.mkdir(parents=True)
        made.touch()
        default_journal().with_name(f"journal.db.{os.getpid()}").symlink_to("left by a process that was killed")
        assert link_last_started(str(made))
        assert default_journal().resolve() == made
        assert list(known_journals()) == ["default"]

    elsewhere = tmp_path / "elsewhere.db"
    assert link_last_started(str(elsewhere))
    assert default_journal().readlink() == elsewhere
    assert link_last_started(None)
    assert not default_journal().is_symlink()


def test_a_journal_that_is_there_is_not_replaced_by_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    default_journal().parent.mkdir(parents=True)
    default_journal().touch()
    assert not link_last_started(str(default_journal(origin=Path("/srv"))))

    assert not default_journal().is_symlink()


@pytest.mark.parametrize("state", [None, "", "not/absolute"])
def test_without_one_it_is_below_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str | None) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if state is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", state)

    assert default_journal("shop") == tmp_path / ".local/state/ether/shop/journal.db"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../other", "a\0b"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidSpec, match="cannot be the name of a cluster"):
        default_journal(name)


def test_clusters_with_a_journal_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert known_journals() == {}
    for name in ("shop", "mine"):
        default_journal(name).parent.mkdir(parents=True)
        default_journal(name).touch()
    (tmp_path / "ether" / "empty").mkdir()

    assert list(known_journals().items()) == [("mine", default_journal("mine")), ("shop", default_journal("shop"))]
