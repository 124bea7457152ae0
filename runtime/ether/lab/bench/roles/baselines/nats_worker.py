"""The end of the NATS contender that answers: a subscription with a callback for each kind of body."""

from __future__ import annotations

import threading
from typing import Any

from ether.lab.bench.roles.baselines.nats_envelope import PLAIN, Notation, notation_of
from ether.lab.bench.roles.baselines.nats_loop import NatsLoop
from ether.lab.harness.role import Info
from ether.lab.harness.workload import BODIES

__all__ = ["Worker"]


class Worker:
    """Answers in an event loop of its own thread."""

    def __init__(self, options: Info) -> None:
        self._nats = NatsLoop(options["url"])
        self._thread = threading.Thread(target=self._nats.loop.run_forever)

    def start(self) -> Info:
        """Subscribe, then answer."""
        connection = self._nats.connect()
        for kind in (*BODIES, PLAIN):
            notation = notation_of(kind)
            self._nats.run(connection.subscribe(notation.subject, cb=_responder(notation)))
        self._nats.run(connection.flush())
        self._thread.start()
        return {}

    def run(self, order: Info) -> Info:
        """Take no orders."""
        return order

    def stop(self) -> None:
        """Disconnect."""
        if self._thread.ident is not None:
            self._nats.loop.call_soon_threadsafe(self._nats.loop.stop)
            self._thread.join()
        self._nats.close()


def _responder(notation: Notation) -> Any:
    async def answer(message: Any) -> None:
        await message.respond(notation.answer(message.data))

    return answer
