"""`ether version`: what is installed."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Final

import typer

from ether.cli.options import FormatOption, output_of

__all__ = ["LIBRARIES", "add_to", "library_version", "print_line", "versions"]

LIBRARIES: Final = ("ormsgpack", "pydantic", "pykka", "pyyaml", "pyzmq", "rich", "typer")
"""What Ether cannot do without."""


def add_to(app: typer.Typer) -> None:
    """Give the app this command."""
    app.command()(version)


def version(ctx: typer.Context, output_format: FormatOption = None) -> None:
    """Print the versions of Ether, of what it speaks, and of what it stands on."""
    found = versions()
    text = "\n".join(f"{name:10} {value}" for name, value in found.items())
    output_of(ctx, output_format).value(found, text)


def print_line() -> None:
    """Print what `ether --version` says."""
    from ether import __version__

    print(f"ether {__version__}")  # noqa: T201  a command prints


def versions() -> dict[str, str]:
    """{what: its version}; Ether first."""
    import zmq

    from ether import __version__
    from ether_broker.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, SCHEMA_VERSION

    return {
        "ether": __version__,
        "protocol": f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}",
        "schema": SCHEMA_VERSION,
        "python": platform.python_version(),
        "libzmq": zmq.zmq_version(),
        **{name: library_version(name) or "missing" for name in LIBRARIES},
        "platform": f"{sys.platform} {platform.machine()}",
    }


def library_version(name: str) -> str | None:
    """The version of an installed distribution; None if it is not there."""
    try:
        return installed(name)
    except PackageNotFoundError:
        return None
