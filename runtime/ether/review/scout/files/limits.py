"""The bounds of an analysis: what is read at most, and how much is told."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScanLimits"]


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """How far an analysis goes. Whatever a bound leaves out is counted and named in the result.

    A result must fit into one envelope of the bus (1 MiB); `result_bytes` leaves room for the rest of it.
    """

    files: int = 20_000
    """Files looked at, in path order."""
    file_bytes: int = 1_000_000
    """A larger file is counted, not read: it is data or generated, and its syntax tree would take 100 MB."""
    total_bytes: int = 256_000_000
    """Bytes read in all."""
    depth: int = 64
    """Directories below the root; 0 means the root's own files only."""
    findings: int = 400
    """Findings told, gravest first."""
    rows: int = 15
    """Rows of each table, such as the most complex functions."""
    result_bytes: int = 700_000
    """The result as JSON."""
