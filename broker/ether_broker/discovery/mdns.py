"""The mDNS library: imported only when it is used, and opened on the interfaces that are wanted."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ether_broker.errors import DiscoveryUnavailable, MissingExtra

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

__all__ = ["LOOPBACK", "open_mdns", "require", "run_apart"]

LOOPBACK: Final = ("127.0.0.1",)
"""Where a machine without a network asks: only itself."""
_T = TypeVar("_T")


def require() -> None:
    """Make sure that the extra is there.

    Raises:
        MissingExtra: it is not; the message names it.
    """
    try:
        import ifaddr
        import zeroconf  # noqa: F401
    except ImportError as error:
        missing = error.name or "zeroconf"
        raise MissingExtra(f"Discovery on the local network needs {missing}: pip install 'agent-ether[lan]'.") from None
    del ifaddr


def open_mdns(addresses: Sequence[str]) -> AsyncZeroconf:
    """Open multicast DNS on the interfaces that have these addresses; inside the event loop that it shall use.

    Addresses that are not this machine's, or not any more, are left out, and IPv6 where the system does without.

    Raises:
        DiscoveryUnavailable: the system does not let us, or none of the addresses is ours.
    """
    from zeroconf import IPVersion
    from zeroconf.asyncio import AsyncZeroconf

    usable = [text for text in addresses if _is_ours(text)]
    families = {":" in text for text in usable}
    version = IPVersion.All if len(families) > 1 else IPVersion.V6Only if True in families else IPVersion.V4Only
    trouble: Exception | None = None
    if usable:
        try:
            return AsyncZeroconf(interfaces=usable, ip_version=version)
        except OSError as error:
            trouble = error
    said = trouble or f"no interface has {' or '.join(addresses)}"
    raise DiscoveryUnavailable(
        f"Multicast DNS (UDP port 5353) cannot be used here: {said}. See what has the port (`ss -lunp`), "
        "or do without: name the broker's address, as in `--connect tcp://HOST:PORT`."
    ) from trouble


def _is_ours(text: str) -> bool:
    """Whether a socket can be bound to this address here; the library would leave one open on finding that it cannot."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))
    except OSError:
        return False
    return True


def run_apart(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end in a thread and an event loop of its own, so that any caller may wait for it."""
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001  the caller's to handle
            done.set_exception(error)

    thread = threading.Thread(target=run, name="ether-discovery", daemon=True)
    thread.start()
    try:
        return done.result()
    finally:
        if done.done():  # not on the caller's Ctrl-C: the thread ends by its own time limit
            thread.join()
