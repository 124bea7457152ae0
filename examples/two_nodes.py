"""Two nodes with keys: the connection is encrypted, each side knows the other's key, and a stranger is not let in.

Hello, Ada.
laptop
AuthenticationFailed
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ether import Agent, AuthenticationFailed, Runtime, capability


class Greeter(Agent):
    """Greets people."""

    @capability("people.greet", idempotent=True)
    def greet(self, name: str) -> str:
        """Greet one."""
        return f"Hello, {name}."


def make_keys(folder: Path) -> None:
    """Do what the administrator of each machine does on the command line; the `.key` files are public, and are carried over."""
    for name in ("office", "laptop", "stranger"):
        subprocess.run(
            ["ether", "-q", "keys", "new", name, "--keys", name], cwd=folder, check=True, capture_output=True
        )
        with (folder / f"{name}.key").open("w") as file:
            subprocess.run(["ether", "keys", "show", "--keys", name], cwd=folder, check=True, stdout=file)
    subprocess.run(
        ["ether", "keys", "allow", "laptop.key", "--keys", "office"], cwd=folder, check=True, capture_output=True
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_keys(folder)
        server_key = folder / "office.key"
        with Runtime(bind="tcp://127.0.0.1:*", keys=folder / "office") as here:
            with Runtime.connect(here.url, keys=folder / "laptop", server_key=server_key) as there:
                there.start(Greeter)  # on the other node, for everybody
                print(here.delegate("people.greet", {"name": "Ada"}, timeout=10).result().data)
                print(there.name.partition("/")[0])
            try:
                Runtime.connect(here.url, keys=folder / "stranger", server_key=server_key, timeout=5).open()
            except AuthenticationFailed as error:
                print(type(error).__name__)
