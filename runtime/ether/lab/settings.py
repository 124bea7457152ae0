"""The settings that every run of the lab has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ether_broker.errors import UsageError

__all__ = ["RunSettings", "Transport"]

Transport: TypeAlias = Literal["ipc", "tcp"]


def _silent(_line: str) -> None:
    pass


class RunSettings(BaseModel):
    """The settings that all runs of the lab share; each kind of run adds its own.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    seconds: float = Field(1.0, gt=0)
    """Seconds of the run, or of each of its turns."""
    transport: Transport = "ipc"
    """ipc, or tcp on the loopback."""
    keep: Path | None = Field(None, exclude=True)
    """The folder where the files of the run stay, empty or new; without one they are removed."""
    tell: Callable[[str], None] = Field(_silent, exclude=True)
    """Called with a line for people as it goes on."""

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            said = (f"{'.'.join(map(str, one['loc']))}={one['input']!r}: {one['msg']}." for one in error.errors())
            raise UsageError(" ".join(said)) from None

    def plain(self) -> dict[str, Any]:
        """The settings as JSON has them, without what says only where and to whom."""
        return self.model_dump(mode="json")

    def make_folder(self) -> Path | None:
        """The folder, made where it is not there.

        Raises:
            UsageError: it is not empty.
        """
        if self.keep is None:
            return None
        self.keep.mkdir(parents=True, exist_ok=True)
        if any(self.keep.iterdir()):
            raise UsageError(f"{self.keep} is not empty: name another folder.")
        return self.keep.resolve()
