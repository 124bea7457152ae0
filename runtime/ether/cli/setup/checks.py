"""The checks of `ether doctor`: one function each, which says what it found and what to do about it."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path
from typing import Final

import zmq

from ether.cli.common.bus_options import BusAddress
from ether.cli.common.connection import connectable, joined, wait_for
from ether.cli.common.output import seconds
from ether.cli.setup.versions import LIBRARIES
from ether.version import installed_version
from ether_broker.discovery.listening import is_listening
from ether_broker.discovery.own_clusters import told_elsewhere
from ether_broker.errors import EtherError, Forbidden, InvalidEndpoint, InvalidKey, MissingExtra
from ether_broker.transport.endpoint import LAN, default_endpoint, prepare_endpoint

__all__ = ["Check", "CheckResult", "checks"]

_PYTHON: Final = (3, 11)
_LIBZMQ: Final = (4, 3)
_FILES_NEEDED: Final = 256
_FILES_WANTED: Final = 1024
_ROUNDS: Final = 20
_SLOW: Final = 0.05
"""Seconds of a round trip beyond which something is wrong with the machine or the network."""
_SKEW: Final = 1.0
"""Seconds between two wall clocks that timestamps in logs should not differ by."""
_RESOLUTION: Final = 1e-3
_PATIENCE: Final = 2.0
_GLANCE: Final = 0.05
"""Seconds of listening that show whether one can."""


@unique
class CheckResult(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    """It works, with a drawback."""
    FAIL = "fail"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    verdict: CheckResult
    detail: str
    fix: str = ""


OK, WARN, FAIL = CheckResult


def checks(address: BusAddress) -> Iterator[Check]:
    """Look at everything; a bus that was named has to be there, and this user's own need not."""
    yield python()
    yield libraries()
    yield libzmq()
    yield curve()
    yield key_files(address.keys)
    yield ipc_folder()
    yield open_files()
    yield clock()
    yield lan()
    yield from bus(address)


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """The interpreter."""
    if version >= _PYTHON:
        return Check("python", OK, f"{'.'.join(map(str, version))} ({platform.python_implementation()})")
    wanted = ".".join(map(str, _PYTHON))
    return Check("python", FAIL, ".".join(map(str, version)), f"install Python {wanted} or newer")


def libraries() -> Check:
    """What has to be installed beside us."""
    found = {name: installed_version(name) for name in LIBRARIES}
    missing = [name for name, version in found.items() if version is None]
    if missing == ["ormsgpack"]:
        detail = "without ormsgpack, envelopes are packed and read several times slower"
        return Check("libraries", WARN, detail, "pip install ormsgpack")
    if missing:
        return Check("libraries", FAIL, f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return Check("libraries", OK, ", ".join(f"{name} {version}" for name, version in found.items()))


def libzmq(version: tuple[int, ...] | None = None) -> Check:
    """The native library under pyzmq."""
    found = version or zmq.zmq_version_info()
    text = ".".join(map(str, found))
    if found >= _LIBZMQ:
        return Check("libzmq", OK, text)
    return Check("libzmq", FAIL, text, "pip install --upgrade pyzmq")


def curve(*, has_curve: bool | None = None) -> Check:
    """Whether connections between machines can be encrypted."""
    if zmq.has("curve") if has_curve is None else has_curve:
        return Check("curve", OK, "libzmq can encrypt connections")
    detail = "this libzmq cannot encrypt connections"
    return Check("curve", WARN, detail, "pip install --force-reinstall pyzmq, for a wheel with libsodium")


def key_files(folder: Path | str | None = None) -> Check:
    """Our keys, if we have any: readable for us alone, and whole."""
    from ether_broker.security.keyring import Keyring, default_folder

    path = Path(folder) if folder is not None else default_folder()
    if folder is None and not path.exists():
        return Check("keys", OK, "none; `ether keys new` makes some, for TCP between machines")
    try:
        ring = Keyring(path)
    except InvalidKey as error:
        return Check("keys", FAIL, str(error), f"chmod -R go= {path}, or `ether keys new --keys {path}`")
    return Check("keys", OK, f"{ring.own.name} {ring.own.fingerprint} in {path}, {len(ring.allowed)} allowed")


def ipc_folder(endpoint: str | None = None) -> Check:
    """The folder of this user's own bus: ours alone, and writable."""
    endpoint = endpoint or default_endpoint()
    folder = Path(endpoint.removeprefix("ipc://")).parent
    nearest = folder
    while not nearest.exists():
        nearest = nearest.parent
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Check("ipc folder", FAIL, f"{nearest} cannot be written", "set XDG_RUNTIME_DIR to a folder of yours")
    if nearest != folder:
        return Check("ipc folder", OK, f"{folder} (made by the first `ether up`)")
    try:
        prepare_endpoint(endpoint)
    except InvalidEndpoint as error:
        return Check("ipc folder", FAIL, str(error), f"chmod 700 {folder}")
    return Check("ipc folder", OK, str(folder))


def open_files(limit: int | None = None) -> Check:
    """How many files and sockets a process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if limit is None else limit
    if soft == resource.RLIM_INFINITY:
        return Check("open files", OK, "no limit")
    if soft >= _FILES_WANTED:
        return Check("open files", OK, f"{soft} a process")
    verdict = WARN if soft >= _FILES_NEEDED else FAIL
    detail = f"{soft} a process; a broker needs two for each node and {_FILES_WANTED} to be safe"
    return Check("open files", verdict, detail, f"ulimit -n {_FILES_WANTED}")


def clock() -> Check:
    """The clock that deadlines go by."""
    resolution = time.get_clock_info("monotonic").resolution
    detail = f"monotonic, resolution {seconds(resolution)}" if resolution > 1e-6 else "monotonic"  # noqa: PLR2004
    if resolution > _RESOLUTION:
        return Check("clock", WARN, detail, "deadlines are that much less exact here")
    return Check("clock", OK, detail)


def lan() -> Check:
    """Whether buses of the local network can be found, and ours be advertised."""
    from ether_broker.discovery.browser import browse

    try:
        from ether_broker.discovery.addresses import own_addresses

        addresses = own_addresses()
        browse(_GLANCE)
    except MissingExtra as error:
        return Check("lan", OK, "discovery is not installed", str(error))
    except EtherError as error:
        return Check("lan", WARN, str(error), "free UDP port 5353, or use --connect")
    if not addresses:
        return Check("lan", WARN, "no address but loopback", "connect this machine to a network")
    return Check("lan", OK, f"multicast DNS can be used at {', '.join(addresses)}")


def bus(address: BusAddress) -> Iterator[Check]:
    """The bus, and how fast it answers; unless it was named it need not be there."""
    try:
        url = connectable(address.url or default_endpoint())
    except InvalidEndpoint as error:
        yield Check("broker", FAIL, str(error), "correct --connect or ETHER_CONNECT")
        return
    try:
        url = wait_for(address) if url.startswith(LAN) else url
    except EtherError as error:
        yield Check("broker", FAIL, str(error), "see what is advertised: `ether discover`")
        return
    if not is_listening(url, _PATIENCE):
        if (elsewhere := told_elsewhere(url)) is not None:
            where = f"nobody listens at {url}: the cluster {Path(url).stem!r} runs at {elsewhere}"
            yield Check("broker", FAIL, where, f"--connect {elsewhere}")
        elif address.url is None:
            yield Check("broker", OK, f"none runs; {url} is free for `ether up`")
        else:
            yield Check("broker", FAIL, f"nobody listens at {url}", f"ether up --bind {url}")
        return
    try:
        yield from _answers(url, address)
    except Forbidden as error:
        yield Check("broker", FAIL, str(error), "see docs/security.md, or --keys and --server-key")
    except EtherError as error:
        yield Check("broker", FAIL, str(error), "see what listens there: `ss -lpn`; then start `ether up`")


def _answers(url: str, address: BusAddress) -> Iterator[Check]:
    at = BusAddress(connect=url, keys=address.keys, server_key=address.server_key)
    with joined(at, patience=_PATIENCE) as found:
        trips, skews = [], []
        for _ in range(_ROUNDS):
            started, wall = time.perf_counter(), time.time()
            response = found.delegate("ether.statistics", {}, timeout=_PATIENCE).result().unwrap()
            trips.append(time.perf_counter() - started)
            skews.append((response.timestamp or wall) - wall - trips[-1] / 2)
        yield Check("broker", OK, f"answers at {url}, {len(found.agents())} agents")
        yield round_trip(statistics.median(trips))
        yield wall_clock(statistics.median(skews))


def round_trip(median: float) -> Check:
    """How long the bus takes to answer."""
    detail = f"{seconds(median)} (median of {_ROUNDS})"
    if median < _SLOW:
        return Check("round trip", OK, detail)
    return Check("round trip", WARN, detail, "look at the load of the broker's machine: `ether top`")


def wall_clock(skew: float) -> Check:
    """How far the broker's wall clock is from ours; timestamps show it, deadlines do not need it."""
    detail = f"{abs(skew):.3f} s {'ahead of' if skew > 0 else 'behind'} ours"
    if abs(skew) < _SKEW:
        return Check("broker's clock", OK, detail)
    return Check("broker's clock", WARN, detail, "run a time service (chrony, systemd-timesyncd) on both")
