"""What every run of the lab is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ether.lab.settings import CommonSettings, setting
from ether_broker.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(CommonSettings):
    nodes: int = setting(3, least=1)
    part: float | None = setting(None, above=0, most=1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"nodes": 0}, "nodes=0: it has to be 1 or more."),
        ({"part": 0.0}, "part=0.0: it has to be above 0."),
        ({"part": 1.1}, "part=1.1: it has to be 1 or less."),
        ({"part": float("nan")}, "part=nan: it has to be above 0."),
        ({"seconds": float("inf")}, "seconds=inf: it has to be finite."),
        ({"transport": "udp"}, "transport='udp': choose tcp or ipc."),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Wishes(**wrong)  # type: ignore[arg-type]

    assert said in str(caught.value)


def test_plain_settings_say_how_and_neither_where_nor_to_whom(tmp_path: Path) -> None:
    assert Wishes(folder=tmp_path).plain() == {"seconds": 1.0, "transport": "ipc", "nodes": 3, "part": None}


def test_a_folder_is_made_and_one_that_is_in_use_is_refused(tmp_path: Path) -> None:
    settings = CommonSettings(folder=tmp_path / "new" / "folder")

    assert settings.make_folder() == tmp_path / "new" / "folder"
    (tmp_path / "new" / "folder" / "mine").touch()
    with pytest.raises(UsageError, match="not empty"):
        settings.make_folder()
    assert CommonSettings().make_folder() is None
