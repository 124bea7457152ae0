"""The version of Ether, and of the distributions beside it."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__", "installed_version"]

__version__: Final = "0.1.0"
"""Of the distribution `agent-ether`."""


def installed_version(name: str) -> str | None:
    """The version of an installed distribution; None if it is not there."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
