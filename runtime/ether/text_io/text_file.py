"""A bounded read of a file that a user names."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read_text"]


def read_text(path: Path, most: int) -> str:
    """The text of a file, UTF-8.

    Args:
        path: of a file, or of a pipe; of one such as /dev/zero no more is read either.
        most: bytes that it may have.

    Raises:
        OSError: it cannot be read.
        ValueError: it has more bytes, or is not UTF-8 (UnicodeDecodeError).
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most:,} bytes")
    return data.decode()
