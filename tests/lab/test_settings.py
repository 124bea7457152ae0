"""What every run of the lab is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from ether.lab.settings import RunSettings
from ether_broker.errors import UsageError


class Wishes(RunSettings):
    nodes: int = Field(3, ge=1)
    part: float | None = Field(None, gt=0, le=1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"nodes": 0}, "nodes=0: Input should be greater than or equal to 1."),
        ({"part": 0.0}, "part=0.0: Input should be greater than 0."),
        ({"part": 1.1}, "part=1.1: Input should be less than or equal to 1."),
        ({"part": float("nan")}, "part=nan: Input should be a finite number."),
        ({"seconds": float("inf")}, "seconds=inf: Input should be a finite number."),
        ({"transport": "udp"}, "transport='udp': Input should be 'ipc' or 'tcp'."),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Wishes(**wrong)  # type: ignore[arg-type]

    assert said in str(caught.value)


def test_plain_settings_say_how_and_neither_where_nor_to_whom(tmp_path: Path) -> None:
    assert Wishes(keep=tmp_path).plain() == {"seconds": 1.0, "transport": "ipc", "nodes": 3, "part": None}


def test_a_folder_is_made_and_one_that_is_in_use_is_refused(tmp_path: Path) -> None:
    settings = RunSettings(keep=tmp_path / "new" / "folder")

    assert settings.make_folder() == tmp_path / "new" / "folder"
    (tmp_path / "new" / "folder" / "mine").touch()
    with pytest.raises(UsageError, match="not empty"):
        settings.make_folder()
    assert RunSettings().make_folder() is None
