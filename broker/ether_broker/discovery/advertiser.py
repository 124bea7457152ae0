"""The advertiser of a broker on the local network, for as long as the broker runs.

    open() ──► thread ── addresses() every 2 s ──► none: withdrawn      other ones: announced again
                 │
                 └── another broker has our name ──► CLUSTER@HOST, CLUSTER@HOST-2 and so on

The question whether a name is free is not always answered in time: two may ask it at the same moment, and who has
answered another's within the second keeps quiet (RFC 6762, 6). So one asks again later, and of two that took one name,
the one that was advertised last gives way: its target, `ether-TIME-CHANCE.local.`, sorts last (as RFC 6762, 9).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final, Self

from ether_broker.discovery.advert import MAX_LABEL, SERVICE_TYPE, Advert
from ether_broker.discovery.mdns import open_mdns, require
from ether_broker.errors import DiscoveryUnavailable, EtherError

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

__all__ = ["Advertiser"]

logger = logging.getLogger("ether.discovery")

_LOOK: Final = 2.0
"""Seconds between two looks at the addresses."""
_QUERY, _SRV, _IN = 0x0000, 33, 1
"""Flags of a question, type and class of a service's record (RFC 1035, RFC 2782)."""
_CHECKS: Final = (1, 2, 3)
_CHECK_EVERY: Final = 30
"""Looks after which others are asked whether they have our name: the first three, and each thirtieth for two parts of
a network that were joined."""


class _Published:
    """One announcement that stands."""

    def __init__(self, mdns: AsyncZeroconf, info: AsyncServiceInfo, advert: Advert) -> None:
        self.mdns = mdns
        self.info = info
        self.advert = advert
        self._looks = 0

    def ask(self) -> None:
        """Have whoever has our name say so, now and then; the answers are in the cache by the next look."""
        from zeroconf import DNSOutgoing, DNSQuestion  # type: ignore[attr-defined]  # there, but not in its __all__

        self._looks += 1
        if self._looks in _CHECKS or self._looks % _CHECK_EVERY == 0:
            message = DNSOutgoing(_QUERY)
            message.add_question(DNSQuestion(self.info.name, _SRV, _IN))
            self.mdns.zeroconf.async_send(message)

    @property
    def must_yield(self) -> bool:
        """Whether another broker has this very name, and keeps it."""
        ours = (self.info.server or "").lower()
        records = self.mdns.zeroconf.cache.async_entries_with_name(self.info.name)
        targets = [str(getattr(record, "server", "")).lower() for record in records if record.type == _SRV]
        return any(target < ours for target in targets)


class Advertiser:
    """The announcement of a broker on the local network until it is closed; a context manager.

    A broker without addresses is not announced, and is as soon as it has some: a laptop that changes its network, or
    a machine that starts before its network does. It says goodbye when it is closed. A process that is killed cannot:
    others that had heard it may remember it for as long as records live, 75 minutes.

    Args:
        advert: what to announce; its addresses do not count, and its name is the first choice only.
        addresses: those at which the broker can be reached now; called every 2 s, in a thread of ours. None of
            them while the broker is down.
        on_event: told in words what happens, in a thread of ours; must be short.
        look: seconds between two looks.
    """

    def __init__(
        self,
        advert: Advert,
        addresses: Callable[[], Sequence[str]],
        *,
        on_event: Callable[[str], None] = lambda _event: None,
        look: float = _LOOK,
    ) -> None:
        self._wanted = advert
        self._addresses = addresses
        self._on_event = on_event
        self._look = look
        self._published: _Published | None = None
        self._lost: set[str] = set()
        """Names that others keep."""
        self._said = ""
        self._target = f"ether-{int(time.time()):010x}-{uuid.uuid4().hex[:8]}.local."
        """No other's, so that nobody mixes another's addresses with ours."""
        self._first: Future[None] = Future()
        self._closing = False
        self._end: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="ether-advertiser", daemon=True)

    @property
    def advert(self) -> Advert | None:
        """What is announced now; None if nothing is."""
        published = self._published
        return published.advert if published else None

    def open(self) -> Self:
        """Announce, or find that there is no address yet, and return; about a second.

        Raises:
            MissingExtra: the extra `lan` is not installed.
            DiscoveryUnavailable: the system does not let us use multicast DNS.
        """
        require()
        self._thread.start()
        try:
            self._first.result()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Say goodbye and end; under a second. A second call does nothing."""
        self._closing = True
        self._end()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._first.done():
                logger.exception("the broker is not advertised any more; this is a bug")
            else:
                self._first.set_exception(error)

    async def _serve(self) -> None:
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._end = lambda: None if loop.is_closed() else loop.call_soon_threadsafe(ending.set)
        try:
            while not (ending.is_set() or self._closing):
                try:
                    await self._renew()
                except (DiscoveryUnavailable, OSError) as error:
                    if not self._first.done():
                        raise
                    self._say(f"not advertised for now: {error}")
                if not self._first.done():
                    self._first.set_result(None)
                try:
                    await asyncio.wait_for(ending.wait(), self._look)
                except TimeoutError:
                    continue
        finally:
            await self._withdraw()

    async def _renew(self) -> None:
        """Announce what is the case now, if that is not what stands."""
        current = replace(self._wanted, addresses=tuple(self._addresses())).addresses
        published = self._published
        if published is not None:
            if published.must_yield:
                self._lost.add(published.advert.name)
            elif published.advert.addresses == current:
                published.ask()
                return
            await self._withdraw()
        if not current:
            self._say("not advertised: the broker has no address that other machines reach; that is looked at again")
            return
        self._published = await self._publish(current)
        advert = self._published.advert
        self._say(f"advertised on the network as {advert.name} at {', '.join(advert.urls)}")

    async def _publish(self, addresses: tuple[str, ...]) -> _Published:
        from zeroconf import NonUniqueNameException

        mdns = open_mdns(addresses)
        try:
            for name in self._names():
                advert = replace(self._wanted, name=name, addresses=addresses)
                info = _info(advert, self._target)
                try:
                    await (await mdns.async_register_service(info))
                except NonUniqueNameException:
                    continue
                return _Published(mdns, info, advert)
        except BaseException:
            await mdns.async_close()
            raise
        raise AssertionError("the names have no end")

    async def _withdraw(self) -> None:
        if self._published is not None:
            try:
                await self._published.mdns.async_close()
            except (EtherError, OSError) as error:  # the interface has gone: nobody is left to hear it
                logger.debug("no goodbye: %s", error)
            self._published = None

    def _names(self) -> Iterator[str]:
        """The name that is wanted, and what else it can be."""
        base = self._wanted.name
        host = f"@{self._wanted.host}" if self._wanted.host else ""
        for number in count(1):
            end = "" if number == 1 else host if number == 2 and host else f"{host}-{number - bool(host)}"  # noqa: PLR2004
            name = f"{base[: MAX_LABEL - len(end)]}{end}"
            if name not in self._lost:
                yield name

    def _say(self, event: str) -> None:
        if event != self._said:
            self._said = event
            self._on_event(event)


def _info(advert: Advert, target: str) -> AsyncServiceInfo:
    from zeroconf.asyncio import AsyncServiceInfo

    return AsyncServiceInfo(
        SERVICE_TYPE,
        f"{advert.name}.{SERVICE_TYPE}",
        port=advert.port,
        addresses=[ipaddress.ip_address(text).packed for text in advert.addresses],
        properties=advert.txt,
        server=target,
    )
