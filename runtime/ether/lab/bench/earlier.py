"""An earlier run of the bench, to which another is compared: what `ether bench -o json` printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel, FiniteFloat, ValidationError

from ether.lab.report import Report
from ether.text_io.text_file import read_text
from ether_broker.errors import UsageError
from ether_broker.text import printable

__all__ = ["EarlierRun"]

_LONGEST: Final = 1 << 20
"""Bytes of such a file."""


class _Figure(BaseModel):
    case: str
    name: str
    value: FiniteFloat


class EarlierRun(BaseModel):
    """The figures of an earlier run."""

    figures: list[_Figure]

    @classmethod
    def read(cls, path: Path) -> EarlierRun:
        """Read one from a file.

        Raises:
            UsageError: the file cannot be read, or has something else in it.
        """
        try:
            return cls.model_validate_json(read_text(path, _LONGEST))
        except ValidationError as error:
            [first, *_] = error.errors(include_url=False, include_input=False)
            what = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
        except (OSError, ValueError) as error:
            what = str(error)
        raise UsageError(
            f"{printable(path)} is no earlier run: {printable(what)}. `ether bench -o json > FILE` writes one."
        )

    def beside(self, report: Report) -> Report:
        """A report with what its figures were in this run."""
        values = {(figure.case, figure.name): figure.value for figure in self.figures}
        figures = tuple(
            replace(figure, before=values.get((figure.case, figure.name))) for figure in report.figures
        )  # fmt: skip
        return replace(report, figures=figures)
