"""Redis's publish and subscribe by redis-py: a publisher, and a process with ten subscribers.

Redis keeps nothing of what it is given: a subscriber that is slow or away loses it, and nobody is told.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any, Final

from ether.lab.bench.baselines.caller import library, missing
from ether.lab.harness.role import Info, Role
from ether_broker.errors import BrokerUnavailable

__all__ = ["RedisPublisher"]

_SUBSCRIBERS: Final = 10
_PATIENCE: Final = 20.0
_EVENTS, _FINISHED = "bench.event", "bench.finished"
_LAST: Final = b"last"
_BODY: Final = b"x" * 100


class RedisPublisher(Role):
    """A process that publishes on a Redis of its own."""

    def start(self) -> Info:
        """Start Redis and the subscribers.

        Raises:
            MissingExtra: redis or redis-server is not installed.
            BrokerUnavailable: they were not there within 20 s.
        """
        redis = library("redis")
        server = shutil.which("redis-server")
        if server is None:
            raise missing("redis-server, a package of the system's,")
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix="ether-redis-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._run(server, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", folder)
        self._redis = self.enter_context(redis.Redis(port=port))
        end = time.monotonic() + _PATIENCE
        started = False
        while time.monotonic() < end:
            with suppress(redis.ConnectionError):
                if not started:
                    self._redis.ping()
                    self._run(sys.executable, "-P", "-m", __spec__.name, str(port))
                    started = True
                if self._redis.pubsub_numsub(_EVENTS)[0][1] == _SUBSCRIBERS:
                    return {}
            time.sleep(0.02)
        raise BrokerUnavailable(f"Redis and its subscribers were not there within {_PATIENCE:g} s.")

    def _run(self, *command: str) -> None:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        self.callback(process.wait, 10)
        self.callback(process.terminate)

    def work(self, window: int, seconds: float, **_options: object) -> Info:
        """Publish for that many seconds, so many in one pipeline, and wait until all are handled; counts deliveries."""
        redis, clock = self._redis, time.perf_counter
        count, start = 0, clock()
        while clock() - start < seconds:
            pipeline = redis.pipeline(transaction=False)
            for _ in range(window):
                pipeline.publish(_EVENTS, _BODY)
            pipeline.execute()
            count += window
        redis.publish(_EVENTS, _LAST)
        for _ in range(_SUBSCRIBERS):
            redis.blpop(_FINISHED)
        return {"count": count * _SUBSCRIBERS, "seconds": clock() - start}


def _subscribe(redis: Any, port: int) -> None:
    own = redis.Redis(port=port)
    subscriber = own.pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe(_EVENTS)
    for message in subscriber.listen():
        if message["data"] == _LAST:
            own.rpush(_FINISHED, b"")


def _main(port: int) -> None:
    redis = library("redis")
    for _ in range(_SUBSCRIBERS):
        threading.Thread(target=_subscribe, args=(redis, port)).start()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
