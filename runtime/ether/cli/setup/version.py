"""`ether version`: what is installed."""

from __future__ import annotations

from ether.cli.common.options import with_options
from ether.cli.common.output import Output
from ether.cli.setup.versions import versions

__all__ = ["version"]


@with_options
def version(out: Output) -> None:
    """Print the versions of Ether, of what it speaks, and of what it stands on."""
    found = versions()
    text = "\n".join(f"{name:10} {value}" for name, value in found.items())
    out.value(found, text)
