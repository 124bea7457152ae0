"""Several hosts on one machine: a network namespace each, on one switch. For tests that one host cannot do.

    alpha ── eth0 ──┐
                    ├── bridge      10.77.0.1, 10.77.0.2 … /24 and fd77::1, fd77::2 … /64, in the order of the names
    beta  ── eth0 ──┘

Linux and root only. The hosts share the file system and nothing else: each has its own name and its own loopback.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pytest

from tests.support import wait_until

__all__ = ["Network", "network_of"]

_NAME_HOST: Final = 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"'


class Network:
    """Hosts that reach each other and nobody else."""

    def __init__(self, names: Sequence[str]) -> None:
        self._run_id = uuid.uuid4().hex[:8]
        self.names = tuple(names)
        self._switch = f"ether-{self._run_id}-switch"

    def command(self, host: str, words: Sequence[str]) -> list[str]:
        """The command line that runs these words on a host; the process is the one that is started."""
        named = ["unshare", "--uts", "sh", "-c", _NAME_HOST, host]
        return ["ip", "netns", "exec", self._namespace(host), *named, *words]

    def address(self, host: str) -> str:
        """Its IPv4 address."""
        return f"10.77.0.{self.names.index(host) + 1}"

    def unplug(self, host: str) -> None:
        """Take the host's cable out."""
        _ip("-n", self._switch, "link", "set", f"port-{host}", "down")

    def plug_in(self, host: str) -> None:
        """Put it back."""
        _ip("-n", self._switch, "link", "set", f"port-{host}", "up")

    def block(self, host: str, other: str) -> None:
        """From now on what a host sends to another one disappears; what it receives from there does not."""
        _ip("-n", self._namespace(host), "route", "add", "blackhole", f"{self.address(other)}/32")

    def unblock(self, host: str, other: str) -> None:
        """Let it arrive again."""
        _ip("-n", self._namespace(host), "route", "del", "blackhole", f"{self.address(other)}/32")

    def routes(self, host: str) -> str:
        """Its routing table."""
        return _ip("-n", self._namespace(host), "route")

    @property
    def namespaces(self) -> list[str]:
        """As `ip netns` names them."""
        return [*map(self._namespace, self.names), self._switch]

    def pids(self) -> list[int]:
        """Of all processes on all hosts."""
        return [pid for space in self.namespaces for pid in _pids(space)]

    def _namespace(self, host: str) -> str:
        return f"ether-{self._run_id}-{host}"

    def build(self) -> None:
        """Make it all."""
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        for number, host in enumerate(self.names, 1):
            space, port = self._namespace(host), f"port-{host}"
            _ip("netns", "add", space)
            _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", port, "netns", self._switch)
            _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", space, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            _ip("-n", space, "address", "add", f"fd77::{number}/64", "dev", "eth0", "nodad")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "link", "set", "eth0", "up")

    def destroy(self) -> None:
        """Kill what still runs on the hosts, and take all away."""
        for space in self.namespaces:
            for pid in _pids(space):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda space=space: not _pids(space), what="the host's processes have ended")
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


@contextmanager
def network_of(*names: str) -> Iterator[Network]:
    """A network with these hosts, up to 9 characters each; skips the test where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no `{tool}` here (Debian: iproute2, util-linux)")
    network = Network(names)
    try:
        try:
            network.build()
            subprocess.run(network.command(names[0], ["true"]), check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.strip()}")
        yield network
    finally:
        network.destroy()


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def _pids(space: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", space], check=False, capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]
