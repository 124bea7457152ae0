"""A TCP proxy that is as bad as a network can be: slow, narrow, and with connections that break.

python -m tests.network.proxy HOST:PORT TARGET:PORT [--delay S] [--jitter S] [--bandwidth BYTES] [--reset-every S]

Commands come on stdin, a word a line; each is answered with `done` on stdout:

    reset     every connection is reset at both ends
    forget    every connection is reset at the client's end; the server's end stays open and silent (half-open)
    stall     bytes are kept back, both ways and on new connections too
    resume    they go on
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import socket
import struct
import sys
from typing import Final

__all__ = ["Proxy", "main"]

_CHUNK: Final = 16_384
_RESET: Final = struct.pack("ii", 1, 0)


class Proxy:
    """One listening port.

    Args:
        delay: seconds that each chunk takes, either way.
        jitter: seconds that it may take longer, drawn again for each; order is kept.
        bandwidth: bytes a second, for each connection and direction; 0 has no bound.
        seed: of what is drawn.
    """

    def __init__(
        self, target: tuple[str, int], *, delay: float = 0.0, jitter: float = 0.0, bandwidth: float = 0.0, seed: int = 1
    ) -> None:  # fmt: skip
        self._target = target
        self._delay = delay
        self._jitter = jitter
        self._bandwidth = bandwidth
        self._random = random.Random(seed)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._connections: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}
        self._forgotten: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.resets = 0
        """Connections that were reset."""

    async def listen(self, host: str, port: int) -> int:
        """Begin; returns the port."""
        self._server = await asyncio.start_server(self._serve, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """End."""
        assert self._server is not None
        self._server.close()
        for writer in self._forgotten:
            _reset(writer)
        self.reset()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def reset(self) -> None:
        """Break every connection at both ends."""
        for client, server in self._connections.values():
            _reset(client)
            _reset(server)
            self.resets += 1

    def reset_one(self) -> None:
        """Break one, drawn by lot."""
        if self._connections:
            for writer in self._random.choice(list(self._connections.values())):
                _reset(writer)
            self.resets += 1

    def forget(self) -> None:
        """Break every connection at the client's end, and leave the server's as it is."""
        for task, (client, server) in list(self._connections.items()):
            del self._connections[task]
            self._forgotten.append(server)
            _reset(client)
            task.cancel()

    def stall(self) -> None:
        """Keep everything back."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let it go on."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # as it is when it is forgotten
            await self._pass(reader, client)

    async def _pass(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._flowing.wait()
            answers, server = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(client)
            return
        self._connections[task] = client, server
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, server))
                both.create_task(self._pump(answers, client))
        except* OSError:
            pass
        finally:
            if self._connections.pop(task, None) is not None:
                _reset(client)
                _reset(server)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass chunks on, each when its time has come, and at last the end."""
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def deliver() -> None:
            while True:
                due, chunk = await chunks.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                await self._flowing.wait()
                if not chunk:
                    writer.write_eof()
                    return
                writer.write(chunk)
                await writer.drain()
                if self._bandwidth:
                    await asyncio.sleep(len(chunk) / self._bandwidth)

        async with asyncio.TaskGroup() as group:
            group.create_task(deliver())
            chunk = b"?"
            while chunk:
                chunk = await reader.read(_CHUNK)
                await chunks.put((loop.time() + self._delay + self._random.uniform(0, self._jitter), chunk))


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a connection that broke: what was under way is lost."""
    plug = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


async def _run(options: argparse.Namespace) -> None:
    host, _, port = options.listen.rpartition(":")
    to, _, target = options.target.rpartition(":")
    proxy = Proxy(
        (to.strip("[]"), int(target)), delay=options.delay, jitter=options.jitter, bandwidth=options.bandwidth
    )
    print(await proxy.listen(host, int(port)), flush=True)

    async def trouble() -> None:
        while options.reset_every:
            await asyncio.sleep(options.reset_every)
            proxy.reset_one()

    breaking = asyncio.create_task(trouble())
    while line := await asyncio.to_thread(sys.stdin.readline):
        getattr(proxy, line.strip())()
        print(f"done {proxy.resets}", flush=True)
    breaking.cancel()
    await proxy.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("listen")
    parser.add_argument("target")
    for name in ("delay", "jitter", "bandwidth", "reset-every"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
