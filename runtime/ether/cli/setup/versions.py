"""The versions of what is installed: Ether, its protocols and schemas, and the libraries that it uses."""

from __future__ import annotations

import platform
import sys
from typing import Final

from ether.version import __version__, installed_version
from ether_broker.envelope.version import PROTOCOL_MAJOR, PROTOCOL_MINOR, SCHEMA_VERSION

__all__ = ["LIBRARIES", "versions"]

LIBRARIES: Final = ("msgpack", "ormsgpack", "pydantic", "pykka", "pyyaml", "pyzmq", "rfc8785", "rich", "typer")
"""What Ether cannot do without."""


def versions() -> dict[str, str]:
    """{what: its version}; Ether first."""
    import zmq

    return {
        "ether": __version__,
        "protocol": f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}",
        "schema": SCHEMA_VERSION,
        "python": platform.python_version(),
        "libzmq": zmq.zmq_version(),
        **{name: installed_version(name) or "missing" for name in LIBRARIES},
        "platform": f"{sys.platform} {platform.machine()}",
    }
