"""The scaling of the agents of this node: instances come and go with what waits for them.

Node.ticked ──► AgentScaling ──► ScalePolicy                                       how many there should be
                             ──► start ──► AgentHost                               one that comes
                             ──► AgentHost.begin_draining, AgentSupervision.remove  one that goes, once it has nothing more
broker ── SCALE ──► Cell.outstanding                                               what waits for each, or runs
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from ether.node.agents.agent_host import AgentHost, NotStarted
from ether.node.agents.scaled_agent import ScaledAgent
from ether.node.agents.supervision import AgentSupervision
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether_actors.execution.cell import Cell, CellState
from ether_actors.execution.resources import Resources
from ether_broker.envelope.payload import pack
from ether_broker.errors import Closed, DuplicateAgent, UnknownAgent
from ether_broker.name_hint import nearest
from ether_broker.unread_log import warn_unread
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["AgentScaling"]

logger: logging.Logger = logging.getLogger("ether.scaling")

_PAUSE: Final = 1.0
"""Seconds before an instance is started after one that did not start or gave up soon; twice as long after each further one."""
_LONGEST: Final = 60.0
"""Seconds of such a pause at most, and after its start in which an instance that gives up counts as one that did not start."""
_SAID: Final = 3
"""Failures in a row that are said aloud."""
_LATE: Final = 2.0
"""Seconds without a look after which nobody knows what was enough: no broker was heard, or the process had stopped."""
_CLOSED: Final = 5.0
"""Seconds that what runs has when scaling ended while an instance started."""


class AgentScaling:
    """The agents of a node that scale.

    Args:
        agent_host: has the instances.
        supervision: restarts them, and ends them.
        sender: the way to the broker, whose observers are told.
        resources: what the node runs on.
        session_state: whether the node is to end.
    """

    def __init__(
        self, agent_host: AgentHost, supervision: AgentSupervision, sender: Sender, resources: Resources,
        session_state: SessionState,
    ) -> None:  # fmt: skip
        self._agent_host = agent_host
        self._supervision = supervision
        self._sender = sender
        self._resources = resources
        self._session_state = session_state
        self._scaled: list[ScaledAgent] = []
        self._lock = threading.Lock()
        """Of the agents' cells: they come in the pool, and are looked at in the link's thread."""
        supervision.on_left = self._left
        supervision.on_made_again = self._made_again

    def add(self, scaled: ScaledAgent, foreign_names: Iterable[str] = ()) -> list[Cell]:
        """Start an agent that scales, with the fewest instances that it may have; names that others have are passed over.

        Args:
            scaled: the agent.
            foreign_names: names that others are known to have; any other is tried, which takes a start of an instance.

        Raises:
            DuplicateAgent: an agent of that name scales on this node already, or others have all names that it may have.
            InvalidManifest, BrokerUnavailable, UsageError: the registry did not take them.
            NotStarted: `__init__` or `on_start` raised; none of them is left running.
            Closed: it was stopped meanwhile, and did not start either.
        """
        scaled.foreign_names.update(dict.fromkeys(foreign_names, self._resources.monotonic()))
        scaled.rests.clear()
        self.follow(scaled)
        try:
            return self._start_least(scaled)
        except BaseException:
            with self._lock:
                if scaled not in self._scaled:
                    raise Closed(f"The agent {scaled.name!r} was stopped while it started.") from None
                self._scaled.remove(scaled)
            raise
        finally:
            scaled.rests.set()

    def follow(self, scaled: ScaledAgent, cells: Iterable[Cell] = ()) -> None:
        """Let instances of an agent come and go from now on.

        Args:
            scaled: the agent.
            cells: its instances that are here already.

        Raises:
            DuplicateAgent: an agent of that name scales on this node already.
        """
        with self._lock:
            if any(scaled.name == other.name for other in self._scaled):
                msg = (
                    f"An agent {scaled.name!r} scales on this node already: give another name, or stop it by stop_many."
                )
                raise DuplicateAgent(msg)
            scaled.cells.update(dict.fromkeys(cells, self._resources.monotonic()))
            self._scaled.append(scaled)

    def rescale(self, name: str, to: ScaledAgent) -> bool:
        """Give an agent other bounds and names; its instances go on, and those above the new `max` are drained.

        Args:
            name: that it has.
            to: has the bounds and names, those of all instances among them; it is not started.

        Returns:
            Whether an agent of that name scales here.
        """
        with self._lock:
            for scaled in self._scaled:
                if scaled.name == name:
                    scaled.name, scaled.names, scaled.scale, scaled.policy = to.name, to.names, to.scale, to.policy
                    return True
        return False

    def release(self, names: Collection[str], start: float, drain: float) -> tuple[list[Cell], list[str]]:
        """Let none come or go by itself of some agents any more; their instances go on, but those that are going end.

        Args:
            names: of the agents.
            start: seconds that an instance that is being started has; if it has not started then, it ends when it has.
            drain: seconds that what runs of those that are going has.

        Returns:
            The instances that go on, and the names of those of which something still ran.
        """
        with self._lock:
            released = [scaled for scaled in self._scaled if scaled.name in names]
            self._scaled = [scaled for scaled in self._scaled if scaled not in released]
        end = self._resources.monotonic() + start
        for scaled in released:
            self._resources.wait(scaled.rests, max(0.0, end - self._resources.monotonic()))
        with self._lock:
            for scaled in released:
                scaled.has_ended = True
        draining = [cell for scaled in released for cell in scaled.draining]
        late = self._supervision.stop_cells(draining, drain) if draining else []
        return [cell for scaled in released for cell in scaled.active], late

    def stop(self, name: str, timeout: float) -> None:
        """Stop all instances of an agent for good; what runs has `timeout` seconds.

        Raises:
            UnknownAgent: no agent of that name scales here.
        """
        with self._lock:
            scaled = next((scaled for scaled in self._scaled if scaled.name == name), None)
            if scaled is None:
                hint = nearest(name, [scaled.name for scaled in self._scaled])
                of = next((one.name for one in self._scaled if any(cell.name == name for cell in one.cells)), None)
                if of is not None:
                    hint = f" {name!r} is an instance of {of!r}: bus.stop_many({of!r}) stops all of them."
                elif name in self._agent_host.agent_names:
                    hint = f" bus.stop({name!r}) ends one that was started without a `scale`."
                raise UnknownAgent(f"No agent {name!r} scales on this node.{hint}")
            self._scaled.remove(scaled)
            scaled.has_ended = True
            cells = list(scaled.cells)
        self._supervision.stop_cells(cells, timeout)

    # -- time ----------------------------------------------------------------------------------------------------

    def ticked(self, now: float) -> None:
        """Decide how many instances there should be; called each 0.1 to 0.3 s."""
        if self._scaled and not self._session_state.is_draining and self._session_state.is_heard(now):
            for scaled in list(self._scaled):
                self._look(scaled, now)

    def _look(self, scaled: ScaledAgent, now: float) -> None:
        with self._lock:
            for cell in [cell for cell in scaled.cells if cell.state is CellState.STOPPED]:
                del scaled.cells[cell]
                scaled.draining.pop(cell, None)
            for cell, is_said in list(scaled.draining.items()):
                if is_said and not cell.works:
                    scaled.draining[cell] = False  # once
                    self._resources.run(lambda cell=cell: self._supervision.remove(cell))  # type: ignore[misc]
            if not scaled.rests.is_set() or scaled not in self._scaled:
                return
            if now - scaled.looked_at > _LATE:
                scaled.policy.interrupted()
            scaled.looked_at = now
            instances, outstanding = len(scaled.active), scaled.outstanding
            scaled.policy.peaked(scaled.take_most(), instances)
            more = scaled.policy.decide(outstanding, instances, now)
            if more < 0:
                self._take_away(scaled, -more, outstanding)
            elif more and not self._must_wait(scaled, now):
                names = self._free_names(scaled, min(more, scaled.scale.max - len(scaled.cells)))
                if names:
                    scaled.rests.clear()
                    self._resources.run(lambda: self._add(scaled, names, outstanding))

    def _must_wait(self, scaled: ScaledAgent, now: float) -> bool:
        if now - scaled.failed_at > 2 * _LONGEST:
            scaled.failures = 0
        return bool(scaled.failures) and now < scaled.failed_at + _pause(scaled.failures)

    def _free_names(self, scaled: ScaledAgent, count: int) -> list[str]:
        now, here = self._resources.monotonic(), self._agent_host.agent_names
        scaled.foreign_names = {name: at for name, at in scaled.foreign_names.items() if now - at < _LONGEST}
        here = here | scaled.foreign_names.keys()
        return list(islice((name for name in scaled.names() if name not in here), max(0, count)))

    # -- coming --------------------------------------------------------------------------------------------------

    def _start(self, scaled: ScaledAgent, names: list[str]) -> list[Cell]:
        """Start instances; if scaling ended meanwhile, they end too."""
        instances = self._agent_host.scaled
        fresh = [name for name in names if name not in self._agent_host.agent_names]
        instances.update(fresh)
        try:
            scaled.start(names)
            cells = [self._agent_host.cell(name) for name in names if name in self._agent_host.agent_names]
        except BaseException:
            instances.difference_update(fresh)
            raise
        now = self._resources.monotonic()
        with self._lock:
            has_ended = scaled.has_ended
            if not has_ended:
                scaled.cells.update(dict.fromkeys(cells, now))
        if has_ended:
            for cell in cells:
                self._supervision.stop_agent(cell.name, _CLOSED)
        return cells

    def _start_least(self, scaled: ScaledAgent) -> list[Cell]:
        """Start the fewest instances: all at once, or one by one once a name is another's, as nobody says which."""
        cells: list[Cell] = []
        at_a_time = least = scaled.scale.min
        try:
            while len(cells) < least:
                names = self._free_names(scaled, min(at_a_time, least - len(cells)))
                if not names:
                    msg = f"Others on the bus have all names that the agent {scaled.name!r} may have."
                    raise DuplicateAgent(msg)  # noqa: TRY301  as if the registry had refused it
                try:
                    cells += self._start(scaled, names)
                except DuplicateAgent:
                    if len(names) == 1:
                        scaled.foreign_names[names[0]] = self._resources.monotonic()
                        if not self._free_names(scaled, 1):
                            raise
                    at_a_time = 1
        except BaseException:
            for cell in cells:
                self._supervision.stop_agent(cell.name, _CLOSED)
            raise
        return cells

    def _add(self, scaled: ScaledAgent, names: list[str], outstanding: int) -> None:
        """Start instances, one after the other, so that each works as soon as it can."""
        before = len(scaled.active)
        try:
            for name in names:
                is_full = len(scaled.cells) >= scaled.scale.max  # by new bounds
                if is_full or not scaled.needs_more or scaled not in self._scaled or self._session_state.is_draining:
                    break  # it may be that what waited has been done while one started
                try:
                    self._start(scaled, [name])
                except DuplicateAgent:
                    scaled.foreign_names[name] = self._resources.monotonic()
        except BaseException as error:  # whatever its `__init__` or `on_start` raised
            found = error.error if isinstance(error, NotStarted) else error
            logger.exception("another instance of %s did not start", scaled.name, exc_info=found)
            self._failed(scaled)
        finally:
            scaled.rests.set()
        instances = len(scaled.active)
        if instances > before and scaled in self._scaled:
            due = f"{outstanding} delegations wait or run, more than {scaled.scale.per} for each of {before}"
            least = scaled.scale.min
            why = (
                due
                if before >= least
                else f"at least {least}"
                if instances <= least
                else f"at least {least}, and {due}"
            )
            self._tell(scaled, before, instances, why)

    def _failed(self, scaled: ScaledAgent) -> None:
        scaled.failures += 1
        scaled.failed_at = self._resources.monotonic()
        if scaled.failures == _SAID:
            msg = f"{scaled.name}: {_SAID} instances in a row did not start or gave up; the pauses between tries get longer."
            logger.error(msg)
            warn_unread(logger, msg)

    # -- draining ---------------------------------------------------------------------------------------------------

    def _take_away(self, scaled: ScaledAgent, count: int, outstanding: int) -> None:
        """Drain the instances with the least to do, of those the newest."""
        active = scaled.active
        rows = sorted(enumerate(active), key=lambda row: (row[1].outstanding, -row[0]))
        for _, cell in rows[:count]:
            scaled.draining[cell] = False
            self._resources.run(lambda cell=cell: self._drain(scaled, cell))  # type: ignore[misc]
        why = f"{outstanding} delegations wait or run, and one fewer was enough for {scaled.scale.cooldown:g} s"
        if len(active) > scaled.scale.max:
            why = f"at most {scaled.scale.max}"
        self._tell(scaled, len(active), len(active) - count, why)

    def _drain(self, scaled: ScaledAgent, cell: Cell) -> None:
        self._agent_host.begin_draining([cell])
        with self._lock:
            if cell in scaled.draining:
                scaled.draining[cell] = True

    def _left(self, cell: Cell) -> None:
        """Take note that an instance gave up, or is not restarted."""
        for scaled in list(self._scaled):
            if (began := scaled.cells.get(cell)) is not None and cell not in scaled.draining:
                if self._resources.monotonic() - began < _LONGEST:
                    self._failed(scaled)
                else:
                    scaled.failures = 0

    def _made_again(self, cell: Cell) -> None:
        """Take note that an instance has another cell, as it did not start alone."""
        with self._lock:
            for scaled in self._scaled:
                for old in [one for one in scaled.cells if one.name == cell.name and one is not cell]:
                    scaled.cells[cell] = scaled.cells.pop(old)
                    if old in scaled.draining:
                        scaled.draining[cell] = scaled.draining.pop(old)

    def _tell(self, scaled: ScaledAgent, before: int, instances: int, why: str) -> None:
        logger.info("%s: %d -> %d instances: %s", scaled.name, before, instances, why)
        names = [cell.name for cell in list(scaled.cells)]
        is_base = any(name == scaled.name or name.startswith(f"{scaled.name}-") for name in names)
        source = scaled.name if is_base or not names else names[0]  # the broker takes it of a node's own instances
        body = pack({"before": before, "instances": instances, "why": why})
        self._sender.send(pack_envelope(Kind.SCALE, source=source.encode(), body=body))
        self._sender.flush()


def _pause(failures: int) -> float:
    return min(_LONGEST, _PAUSE * 2.0 ** min(failures - 1, 16))
