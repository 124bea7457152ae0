"""What every run of the lab is asked for, and the check of its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ether_broker.errors import UsageError

__all__ = ["CommonSettings", "setting"]


def setting(
    default: Any, *, least: float | None = None, above: float | None = None, most: float = float("inf"),
    choices: tuple[str, ...] = (),
) -> Any:  # fmt: skip
    """A field of `CommonSettings` with what its values have to be; None is always one."""
    return field(default=default, metadata={"least": least, "above": above, "most": most, "choices": choices})


def _silent(_line: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonSettings:
    """How a run is made; each kind of run adds its own.

    Raises:
        UsageError: a value that cannot be; the message names it.
    """

    seconds: float = setting(1.0, above=0)
    transport: str = setting("ipc", choices=("tcp", "ipc"))
    """`ipc`, or `tcp` on the loopback."""
    folder: Path | None = None
    """Where the files of the run stay; None removes them. It has to be empty or new."""
    tell: Callable[[str], None] = field(default=_silent, compare=False)
    """Called with a line for people as it goes on."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.metadata and value is not None and (wrong := _wrong(value, **item.metadata)):
                raise UsageError(f"{item.name}={value!r}: {wrong}.")

    def plain(self) -> dict[str, Any]:
        """The settings as JSON has them, without what says only where and to whom."""
        found = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in {"tell", "folder"}}
        return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in found.items()}

    def make_folder(self) -> Path | None:
        """The folder, made where it is not there.

        Raises:
            UsageError: it is not empty.
        """
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} is not empty: name another folder.")
        return self.folder.resolve()


def _wrong(value: Any, *, least: float | None, above: float | None, most: float, choices: tuple[str, ...]) -> str:
    """What is wrong with a value; empty if nothing is."""
    if choices:
        return "" if value in choices else f"choose {' or '.join(choices)}"
    if least is not None and not value >= least:
        return f"it has to be {least:g} or more"
    if above is not None and not value > above:
        return f"it has to be above {above:g}"
    if value == float("inf"):
        return "it has to be finite"
    return "" if value <= most else f"it has to be {most:g} or less"
