"""The threads in which agents start on a node that is up: one that takes long keeps none of the others waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from typing import Final

from ether.cluster.cluster_spec import NamedAgents
from ether.node.agents.agent_host import NotStarted
from ether_broker.errors import EtherError
from ether_broker.text import error_with_class

__all__ = ["AgentStart", "StartThreads", "and_so", "await_starts", "start_in_order", "words_of"]

logger: logging.Logger = logging.getLogger("ether.node")

_AT_A_TIME: Final = 16
"""Agents of a kind that start at a time."""


class AgentStart:
    """A start of some agents of a kind, which may take as long as it takes.

    Args:
        wished: the agents, and the names that they are to have.
        start: starts them, and returns the names that they have; gets what to note in which did not start and why.
    """

    def __init__(
        self, wished: NamedAgents, start: Callable[[NamedAgents, dict[str, str]], Sequence[str]]
    ) -> None:  # fmt: skip
        self.wished: NamedAgents = wished
        self.names: Sequence[str] = wished.names
        """That they have, once it has ended."""
        self.failed: dict[str, str] = {}
        """{name: why it did not start}; of agents that scale, the first name."""
        self.refused: BaseException | None = None
        """Why none of them was started, and none will be."""
        self.has_ended: threading.Event = threading.Event()
        self._start = start

    def run(self) -> None:
        """Start them, in the calling thread."""
        try:
            self.names = self._start(self.wished, self.failed)
        except BaseException as error:  # noqa: BLE001  who waits for it has to hear of it, whatever it is
            self._fail(error)
        if list(self.names) != list(self.wished.names):
            logger.warning(
                "%s started as %s, with no state or mailbox of its own", self.wished.names[0], ", ".join(self.names)
            )
        self.has_ended.set()

    def cannot_run(self, error: BaseException) -> None:
        """End it without a start: there is no thread for it."""
        self._fail(error)
        self.has_ended.set()

    def _fail(self, error: BaseException) -> None:
        unexplained = None if isinstance(error, EtherError) else error
        words = words_of(error)
        logger.error("%s did not start: %s", self.wished.names[0], words, exc_info=unexplained)
        self.refused = error
        self.failed.update(dict.fromkeys(self.wished.told, words))


class StartThreads:
    """Threads that run starts of one kind of agents, some at a time; they end when there is nothing more to run."""

    def __init__(self) -> None:
        self._waiting: deque[AgentStart] = deque()
        self._running = 0
        self._lock = threading.Lock()

    def run(self, start: AgentStart) -> None:
        """Run a start as soon as there is a thread for it."""
        with self._lock:
            self._waiting.append(start)
            if self._running == _AT_A_TIME:
                return
            self._running += 1
        try:
            threading.Thread(target=self._run, name=f"ether-start-{start.wished.names[0]}", daemon=True).start()
        except RuntimeError as error:  # the process can have no more of them
            with self._lock:
                self._running -= 1
                left = [] if self._running else list(self._waiting)  # else one that runs takes them, or fails here too
                if left:
                    self._waiting.clear()
            for one in left:
                one.cannot_run(error)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                start = self._waiting.popleft()
            start.run()


def start_in_order(starts: Sequence[AgentStart], patience: float, failed: MutableMapping[str, str]) -> None:
    """Run starts one after the other; one that takes more than its share of the patience goes on beside the others.

    Args:
        starts: what to run.
        patience: seconds, for all of them.
        failed: gets {name: why it did not start}, as `await_starts`.
    """
    end = time.monotonic() + patience
    for start in starts:
        StartThreads().run(start)
        start.has_ended.wait(patience / len(starts))
    await_starts(starts, end - time.monotonic(), failed, patience)


def await_starts(
    starts: Sequence[AgentStart], timeout: float, failed: MutableMapping[str, str], patience: float | None = None
) -> None:  # fmt: skip
    """Wait until starts have ended, or all of `timeout` seconds are over.

    Args:
        starts: what runs.
        timeout: seconds.
        failed: gets {name: why it did not start}, and of those that have not ended that they go on.
        patience: seconds that those which have not ended are told to have had; default: `timeout`.
    """
    end = time.monotonic() + timeout
    had = timeout if patience is None else patience
    for start in starts:
        if start.has_ended.wait(max(0.0, end - time.monotonic())):
            failed.update(start.failed)
        else:
            logger.warning(
                "%s has not started after %g s: the node is up without it until it has", start.wished.told[0], had
            )
            failed.update(
                dict.fromkeys(start.wished.told, f"It has not started after {had:g} s, and goes on starting.")
            )


def and_so(why: str, sentence: str) -> str:
    """A reason, and what follows of it."""
    return f"{why}{'' if why.endswith(('.', '?', '!')) else '.'} {sentence}"


def words_of(error: BaseException) -> str:
    """What a report says of an error with which something did not start."""
    if isinstance(error, NotStarted):
        error = error.error
    return str(error) if isinstance(error, EtherError) else error_with_class(error)
