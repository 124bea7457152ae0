"""The browser, which listens for brokers on the local network.

All questions want multicast answers. The library would first ask for one to itself; where several programs of a machine
share port 5353, as with Avahi, the system hands that to any of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ether_broker.discovery.addresses import interfaces as all_interfaces
from ether_broker.discovery.addresses import nearest_first, own_addresses
from ether_broker.discovery.advert import SERVICE_TYPE, Advert
from ether_broker.discovery.mdns import LOOPBACK, open_mdns, require, run_apart
from ether_broker.errors import InvalidSpec

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncZeroconf

__all__ = ["browse", "discover"]

logger = logging.getLogger("ether.discovery")

_MOST_NAMES: Final = 256
"""Names that are looked at: a stranger can announce any number."""
_PATIENCE: Final = 3000
"""Milliseconds for the details of one name."""


def discover(timeout: float = 2.5) -> list[Advert]:
    """Find the brokers that are advertised on the local network (`ether up --advertise`).

    Anybody on the network can advertise anything: what is found is a hint where to connect, and proves nothing.

    Args:
        timeout: seconds to listen; a broker answers at once, or after a second if it has just answered another. What
            is lost is asked for again after one second, and after three.

    Returns:
        What was found, by name.

    Raises:
        MissingExtra: the extra `lan` is not installed.
        DiscoveryUnavailable: the system does not let us use multicast DNS.
    """
    return browse(timeout)


def browse(
    timeout: float,
    *,
    enough: Callable[[Sequence[Advert]], bool] = lambda _found: False,
    settle: float | None = None,
    interfaces: Sequence[str] | None = None,
) -> list[Advert]:
    """Listen for adverts; as `discover`, with more to choose. Blocks, and may be called from any thread.

    Args:
        timeout: seconds to listen at most.
        enough: asked whenever something was found: whether to stop.
        settle: stop also when something was found and nothing new for so many seconds; None: never.
        interfaces: the addresses of the interfaces to listen on; default: all but loopback.
    """
    require()
    return run_apart(lambda: _browse(timeout, enough, settle, interfaces))


async def _browse(
    timeout: float,
    enough: Callable[[Sequence[Advert]], bool],
    settle: float | None,
    interfaces: Sequence[str] | None,
) -> list[Advert]:
    from zeroconf import DNSQuestionType
    from zeroconf.asyncio import AsyncServiceBrowser

    limit = time.monotonic() + timeout
    mdns = open_mdns(interfaces or own_addresses() or LOOPBACK)
    finds = _Finds(mdns)
    try:
        browser = AsyncServiceBrowser(
            mdns.zeroconf, SERVICE_TYPE, handlers=[finds.hear], question_type=DNSQuestionType.QM
        )
        try:
            while (left := limit - time.monotonic()) > 0 and not (finds.has_found and enough(finds.adverts())):
                pause = left if settle is None or not finds.found or finds.is_asking else min(left, settle)
                if not await finds.changes_within(pause) and pause < left:
                    break
        finally:
            await browser.async_cancel()
    finally:
        await finds.close()
        await mdns.async_close()
    return finds.adverts()


class _Finds:
    """The adverts that one browsing has found so far; used in its event loop only."""

    def __init__(self, mdns: AsyncZeroconf) -> None:
        self._mdns = mdns
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._here = all_interfaces()
        self.found: dict[str, Advert] = {}
        """{full name: advert}"""
        self.has_found = False
        """Whether there ever was one; it may have left since."""

    @property
    def is_asking(self) -> bool:
        """Whether the details of a name are still to come."""
        return bool(self._asking)

    def adverts(self) -> list[Advert]:
        return sorted(self.found.values(), key=lambda advert: advert.name)

    async def changes_within(self, seconds: float) -> bool:
        """Wait for a change; False if there was none in time."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def hear(self, name: str, state_change: Any, **_more: object) -> None:
        """Called by the library when a name is added, updated or removed."""
        from zeroconf import ServiceStateChange

        asked = self._asking.pop(name, None)
        if asked is not None:
            asked.cancel()
        if state_change is ServiceStateChange.Removed:
            self.found.pop(name, None)
            self._changed.set()
        elif name in self.found or asked is not None:
            self._asking[name] = asyncio.get_running_loop().create_task(self._ask(name))
        elif state_change is ServiceStateChange.Added and len(self._asking) + len(self.found) < _MOST_NAMES:
            # An update of a name that has left is the rest of its goodbye.
            self._asking[name] = asyncio.get_running_loop().create_task(self._ask(name))

    async def _ask(self, name: str) -> None:
        from zeroconf import DNSQuestionType, IPVersion
        from zeroconf.asyncio import AsyncServiceInfo

        info = AsyncServiceInfo(SERVICE_TYPE, name)
        try:
            if await info.async_request(self._mdns.zeroconf, _PATIENCE, DNSQuestionType.QM):
                texts = Advert("any", "any", 1, tuple(info.parsed_addresses(IPVersion.All))).addresses
                self.found[name] = Advert.read(
                    name[: -len(SERVICE_TYPE) - 1], info.port or 0, nearest_first(texts, self._here), info.properties
                )
                self.has_found = True
        except InvalidSpec as error:
            logger.debug("an advert is ignored: %s", error)
        if self._asking.get(name) is asyncio.current_task():
            del self._asking[name]
        self._changed.set()

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
