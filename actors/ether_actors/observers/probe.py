"""A probe: an observer for tests, which records what passed and waits for what should."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ether_actors.observers.observer import Observation, Observer
from ether_broker.envelope.status import Status
from ether_broker.errors import UsageError
from ether_broker.name_hint import nearest
from ether_broker.wire.frame import Kind

__all__ = ["Probe"]


class Probe(Observer):
    """An observer for tests that records every message; `bus.observe(Probe())` returns it.

        probe = bus.observe(Probe())
        bus.delegate("text.count", {"text": "a b"}).result()
        probe.expect(status=Status.COMPLETED, capability="text.count")
        assert probe.sequence() == ["test → counter: text.count", "counter → test: text.count COMPLETED"]

    What is asked of it is a filter, by keyword; a message fits when all that are given fit:

        kind          a `Kind`: DELEGATION, RESPONSE or EVENT
        status        a `Status` or its name, so a RESPONSE
        capability    the capability, whole
        from_agent, to_agent, request_id
        event         the name of an event, such as "agent_up", so an EVENT
        where         any function of the `Observation`

    Safe to use from any thread. It keeps everything until `clear`.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        """Numbers, first and last, that were gone before it could see them."""
        self.step: Callable[[], object] | None = None
        """What makes the messages come, of a bus that moves only when it is told to; it is called before each look."""
        self._seen: list[Observation] = []
        self._expected: set[int] = set()
        self._news = threading.Condition()

    # -- the observer --------------------------------------------------------------------------------------------

    def on_message(self, observation: Observation) -> None:
        """Record a message."""
        with self._news:
            self._seen.append(observation)
            self._news.notify_all()

    def on_gap(self, first: int, last: int) -> None:
        """Record a gap."""
        with self._news:
            self.gaps.append((first, last))
            self._news.notify_all()

    # -- what has passed -----------------------------------------------------------------------------------------

    @property
    def observations(self) -> list[Observation]:
        """Everything so far, in order."""
        if self.step is not None:
            self.step()
        with self._news:
            return list(self._seen)

    @property
    def delegations(self) -> list[Observation]:
        """The delegations so far, in order; refused ones too."""
        return self.find(kind=Kind.DELEGATION)

    @property
    def responses(self) -> list[Observation]:
        """The responses so far, in order, ACCEPTED and PROGRESS among them."""
        return self.find(kind=Kind.RESPONSE)

    @property
    def events(self) -> list[Observation]:
        """The events so far, in order."""
        return self.find(kind=Kind.EVENT)

    def find(self, **wanted: Any) -> list[Observation]:
        """All messages so far that fit, in order.

        Raises:
            TypeError: there is no such filter.
            UsageError: there is no such status.
        """
        fits = _filter(wanted)
        return [observation for observation in self.observations if fits(observation)]

    def sequence(self, **wanted: Any) -> list[str]:
        """The messages so far that fit, a line each; by default delegations and responses.

        A delegation is `delegator → specialist: capability`, a response the same the other way with its status, an
        event its name and what it is about.
        """
        if not wanted:
            wanted = {"where": lambda observation: observation.kind is not Kind.EVENT}
        return [describe(observation) for observation in self.find(**wanted)]

    def clear(self) -> None:
        """Forget everything so far."""
        with self._news:
            self._seen.clear()
            self._expected.clear()
            self.gaps.clear()

    # -- what should pass ----------------------------------------------------------------------------------------

    def expect(self, *, timeout: float = 5.0, **wanted: Any) -> Observation:
        """Wait for a message that fits, and return it; each message is returned once.

        Args:
            timeout: seconds to wait for it. On a bus that moves only when it is told to, the bus is run instead, and
                the time does not count.
            wanted: the filter.

        Raises:
            AssertionError: none came; the message says what came.
            TypeError: there is no such filter.
            UsageError: there is no such status.
        """
        fits = _filter(wanted)
        found = self._take(fits)
        if found is None and self.step is not None:
            self.step()
            found = self._take(fits)
        elif found is None:
            found = self._wait(fits, timeout)
        if found is not None:
            return found
        seen = "\n".join(f"  {observation.number} {describe(observation)}" for observation in self.observations)
        msg = f"No message with {_words(wanted)} passed. What passed:\n{seen or '  nothing'}"
        raise AssertionError(msg)

    def _wait(self, fits: Callable[[Observation], bool], timeout: float) -> Observation | None:
        end = time.monotonic() + timeout
        with self._news:
            while (found := self._take(fits)) is None:
                if not self._news.wait(max(0.0, end - time.monotonic())):
                    return self._take(fits)
            return found

    def _take(self, fits: Callable[[Observation], bool]) -> Observation | None:
        with self._news:
            for index, observation in enumerate(self._seen):
                if index not in self._expected and fits(observation):
                    self._expected.add(index)
                    return observation
            return None


def describe(observation: Observation) -> str:
    """One line of `Probe.sequence`."""
    if observation.kind is Kind.EVENT:
        about = observation.event
        what = about.get("agent") or about.get("reason") or about.get("node") or ""
        return f"{about.get('event')} {what}".strip()
    line = f"{observation.from_agent} → {observation.to_agent}: {observation.capability}"
    return f"{line} {_status(observation)}" if observation.kind is Kind.RESPONSE else line


def _status(observation: Observation) -> str:
    return Status.of_code(observation.header.status)


_FILTERS: dict[str, Callable[[Observation, Any], bool]] = {
    "kind": lambda observation, kind: observation.kind is kind,
    "status": lambda observation, status: observation.kind is Kind.RESPONSE and _status(observation) == status,
    "capability": lambda observation, name: observation.capability == name,
    "from_agent": lambda observation, name: observation.from_agent == name,
    "to_agent": lambda observation, name: observation.to_agent == name,
    "request_id": lambda observation, request_id: observation.request_id == request_id,
    "event": lambda observation, name: observation.kind is Kind.EVENT and observation.event.get("event") == name,
    "where": lambda observation, fits: bool(fits(observation)),
}


def _filter(wanted: dict[str, Any]) -> Callable[[Observation], bool]:
    for name in wanted:
        if name not in _FILTERS:
            msg = f"A probe does not filter by {name!r}; it knows {', '.join(_FILTERS)}."
            raise TypeError(msg)
    status = wanted.get("status")
    if status is not None and status not in Status.__members__:
        msg = f"There is no status {status!r}.{nearest(str(status), Status.__members__)}"
        raise UsageError(msg)
    return lambda observation: all(_FILTERS[name](observation, value) for name, value in wanted.items())


def _words(wanted: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in wanted.items()) or "anything"
