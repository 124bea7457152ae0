"""The scaling of the agents of this node: instances come and go with what waits for them.

Node.ticked ──► AgentScaling ──► ScalePolicy                                       how many there should be
                             ──► start ──► AgentHost                               one that comes
                             ──► AgentHost.begin_leaving, AgentSupervision.remove  one that goes, once it has nothing more
broker ── SCALE ──► Cell.outstanding                                               what waits for each, or runs
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Final

from ether.node.agents.agent_host import AgentHost, NotStarted
from ether.node.agents.scale_policy import ScalePolicy
from ether.node.agents.supervision import AgentSupervision
from ether.node.connection.sender import Sender
from ether.node.connection.session_state import SessionState
from ether_actors.agent.scale import Scale
from ether_actors.execution.cell import Cell, CellState
from ether_actors.execution.resources import Resources
from ether_broker.envelope.payload import pack
from ether_broker.errors import Closed, DuplicateAgent, UnknownAgent
from ether_broker.name_hint import nearest
from ether_broker.unread_log import warn_unread
from ether_broker.wire.frame import Kind, pack_envelope

__all__ = ["AgentScaling", "ScaledAgents"]

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


class ScaledAgents:
    """The instances of one agent that scales.

    Args:
        name: of the first, if it is free.
        names: gives the names that instances may have, in their order.
        scale: the bounds.
        start: starts instances under these names; raises as `AgentHost.start_agents`.
    """

    def __init__(
        self, name: str, names: Callable[[], Iterable[str]], scale: Scale, start: Callable[[list[str]], object]
    ) -> None:  # fmt: skip
        self.name: str = name
        self.names = names
        self.scale: Scale = scale
        self.start = start
        self.policy: ScalePolicy = ScalePolicy(scale)
        self.cells: dict[Cell, float] = {}
        """{instance: when it was started}, those that go among them."""
        self.going: dict[Cell, bool] = {}
        """{instance that takes nothing new: whether that was said}."""
        self.taken: dict[str, float] = {}
        """Names that others on the bus have."""
        self.rests: threading.Event = threading.Event()
        """Set while none is being started."""
        self.rests.set()
        self.has_ended: bool = False
        """Whether one that is being started ends when it has."""
        self.looked_at: float = 0.0
        """When it was decided last how many there should be."""
        self.failures: int = 0
        self.failed_at: float = 0.0

    @property
    def taking(self) -> list[Cell]:
        """The instances that take work, or are restarted."""
        return [cell for cell in list(self.cells) if cell not in self.going]

    @property
    def queue(self) -> int:
        """Delegations that wait for the instances, or run, those that go among them, as the broker said last of all at once."""
        return sum(cell.outstanding for cell in list(self.cells))

    @property
    def needs_more(self) -> bool:
        """Whether there are fewer instances than there should be at the least, or than what waits and runs needs."""
        taking = len(self.taking)
        return taking < self.scale.min or self.queue > self.scale.per * taking


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
        self._groups: list[ScaledAgents] = []
        self._lock = threading.Lock()
        """Of the groups' cells: they come in the pool, and are looked at in the link's thread."""
        supervision.on_left = self._left
        supervision.on_made_again = self._made_again

    def add(self, group: ScaledAgents, taken: Iterable[str] = ()) -> list[Cell]:
        """Start an agent that scales, with the fewest instances that it may have; names that others have are passed over.

        Args:
            group: the agent.
            taken: names that others are known to have; any other is tried, which takes a start of an instance.

        Raises:
            DuplicateAgent: an agent of that name scales on this node already, or others have all names that it may have.
            InvalidManifest, BrokerUnavailable, UsageError: the registry did not take them.
            NotStarted: `__init__` or `on_start` raised; none of them is left running.
            Closed: it was stopped meanwhile, and did not start either.
        """
        group.taken.update(dict.fromkeys(taken, self._resources.monotonic()))
        group.rests.clear()
        self.follow(group)
        try:
            return self._start_least(group)
        except BaseException:
            with self._lock:
                if group not in self._groups:
                    raise Closed(f"The agent {group.name!r} was stopped while it started.") from None
                self._groups.remove(group)
            raise
        finally:
            group.rests.set()

    def follow(self, group: ScaledAgents, cells: Iterable[Cell] = ()) -> None:
        """Let instances of an agent come and go from now on.

        Args:
            group: the agent.
            cells: its instances that are here already.

        Raises:
            DuplicateAgent: an agent of that name scales on this node already.
        """
        with self._lock:
            if any(group.name == other.name for other in self._groups):
                msg = (
                    f"An agent {group.name!r} scales on this node already: give another name, or stop it by stop_many."
                )
                raise DuplicateAgent(msg)
            group.cells.update(dict.fromkeys(cells, self._resources.monotonic()))
            self._groups.append(group)

    def rescale(self, name: str, to: ScaledAgents) -> bool:
        """Give an agent other bounds and names; its instances go on, and those above the new `max` are drained.

        Args:
            name: that it has.
            to: has the bounds and names, those of all instances among them; it is not started.

        Returns:
            Whether an agent of that name scales here.
        """
        with self._lock:
            for group in self._groups:
                if group.name == name:
                    group.name, group.names, group.scale, group.policy = to.name, to.names, to.scale, to.policy
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
            released = [group for group in self._groups if group.name in names]
            self._groups = [group for group in self._groups if group not in released]
        end = self._resources.monotonic() + start
        for group in released:
            self._resources.wait(group.rests, max(0.0, end - self._resources.monotonic()))
        with self._lock:
            for group in released:
                group.has_ended = True
        going = [cell for group in released for cell in group.going]
        late = self._supervision.stop_cells(going, drain) if going else []
        return [cell for group in released for cell in group.taking], late

    def stop(self, name: str, timeout: float) -> None:
        """Stop all instances of an agent for good; what runs has `timeout` seconds.

        Raises:
            UnknownAgent: no agent of that name scales here.
        """
        with self._lock:
            group = next((group for group in self._groups if group.name == name), None)
            if group is None:
                hint = nearest(name, [group.name for group in self._groups])
                if name in self._agent_host.agent_names:
                    hint = f" bus.stop({name!r}) ends one that was started without a `scale`."
                raise UnknownAgent(f"No agent {name!r} scales on this node.{hint}")
            self._groups.remove(group)
            group.has_ended = True
            cells = list(group.cells)
        self._supervision.stop_cells(cells, timeout)

    # -- time ----------------------------------------------------------------------------------------------------

    def ticked(self, now: float) -> None:
        """Decide how many instances there should be; called each 0.1 to 0.3 s."""
        if self._groups and not self._session_state.is_draining and self._session_state.is_heard(now):
            for group in list(self._groups):
                self._look(group, now)

    def _look(self, group: ScaledAgents, now: float) -> None:
        with self._lock:
            for cell in [cell for cell in group.cells if cell.state is CellState.STOPPED]:
                del group.cells[cell]
                group.going.pop(cell, None)
            for cell, is_said in list(group.going.items()):
                if is_said and not cell.works:
                    group.going[cell] = False  # once
                    self._resources.run(lambda cell=cell: self._supervision.remove(cell))  # type: ignore[misc]
            if not group.rests.is_set() or group not in self._groups:
                return
            if now - group.looked_at > _LATE:
                group.policy.interrupted()
            group.looked_at = now
            instances, queue = len(group.taking), group.queue
            more = group.policy.decide(queue, instances, now)
            if more < 0:
                self._take_away(group, -more, queue)
            elif more and not self._must_wait(group, now):
                names = self._free_names(group, min(more, group.scale.max - len(group.cells)))
                if names:
                    group.rests.clear()
                    self._resources.run(lambda: self._add(group, names, queue))

    def _must_wait(self, group: ScaledAgents, now: float) -> bool:
        if now - group.failed_at > 2 * _LONGEST:
            group.failures = 0
        return bool(group.failures) and now < group.failed_at + _pause(group.failures)

    def _free_names(self, group: ScaledAgents, count: int) -> list[str]:
        now, here = self._resources.monotonic(), self._agent_host.agent_names
        group.taken = {name: at for name, at in group.taken.items() if now - at < _LONGEST}
        here = here | group.taken.keys()
        return list(islice((name for name in group.names() if name not in here), max(0, count)))

    # -- coming --------------------------------------------------------------------------------------------------

    def _start(self, group: ScaledAgents, names: list[str]) -> list[Cell]:
        """Start instances; if scaling ended meanwhile, they end too."""
        scaled = self._agent_host.scaled
        fresh = [name for name in names if name not in self._agent_host.agent_names]
        scaled.update(fresh)
        try:
            group.start(names)
            cells = [self._agent_host.cell(name) for name in names if name in self._agent_host.agent_names]
        except BaseException:
            scaled.difference_update(fresh)
            raise
        now = self._resources.monotonic()
        with self._lock:
            has_ended = group.has_ended
            if not has_ended:
                group.cells.update(dict.fromkeys(cells, now))
        if has_ended:
            for cell in cells:
                self._supervision.stop_agent(cell.name, _CLOSED)
        return cells

    def _start_least(self, group: ScaledAgents) -> list[Cell]:
        """Start the fewest instances: all at once, or one by one once a name is another's, as nobody says which."""
        cells: list[Cell] = []
        at_a_time = least = group.scale.min
        try:
            while len(cells) < least:
                names = self._free_names(group, min(at_a_time, least - len(cells)))
                if not names:
                    msg = f"Others on the bus have all names that the agent {group.name!r} may have."
                    raise DuplicateAgent(msg)  # noqa: TRY301  as if the registry had refused it
                try:
                    cells += self._start(group, names)
                except DuplicateAgent:
                    if len(names) == 1:
                        group.taken[names[0]] = self._resources.monotonic()
                        if not self._free_names(group, 1):
                            raise
                    at_a_time = 1
        except BaseException:
            for cell in cells:
                self._supervision.stop_agent(cell.name, _CLOSED)
            raise
        return cells

    def _add(self, group: ScaledAgents, names: list[str], queue: int) -> None:
        """Start instances, one after the other, so that each works as soon as it can."""
        before = len(group.taking)
        try:
            for name in names:
                is_full = len(group.cells) >= group.scale.max  # by new bounds
                if is_full or not group.needs_more or group not in self._groups or self._session_state.is_draining:
                    break  # it may be that what waited has been done while one started
                try:
                    self._start(group, [name])
                except DuplicateAgent:
                    group.taken[name] = self._resources.monotonic()
        except BaseException as error:  # whatever its `__init__` or `on_start` raised
            found = error.error if isinstance(error, NotStarted) else error
            logger.exception("another instance of %s did not start", group.name, exc_info=found)
            self._failed(group)
        finally:
            group.rests.set()
        instances = len(group.taking)
        if instances > before and group in self._groups:
            due = f"{queue} delegations wait or run, more than {group.scale.per} for each of {before}"
            self._tell(group, before, instances, due if before >= group.scale.min else f"at least {group.scale.min}")

    def _failed(self, group: ScaledAgents) -> None:
        group.failures += 1
        group.failed_at = self._resources.monotonic()
        if group.failures == _SAID:
            msg = f"{group.name}: {_SAID} instances in a row did not start or gave up; the pauses between tries get longer."
            logger.error(msg)
            warn_unread(logger, msg)

    # -- going ---------------------------------------------------------------------------------------------------

    def _take_away(self, group: ScaledAgents, count: int, queue: int) -> None:
        """Drain the instances with the least to do, of those the newest."""
        taking = group.taking
        rows = sorted(enumerate(taking), key=lambda row: (row[1].outstanding, -row[0]))
        for _, cell in rows[:count]:
            group.going[cell] = False
            self._resources.run(lambda cell=cell: self._drain(group, cell))  # type: ignore[misc]
        why = f"{queue} delegations wait or run, and one fewer was enough for {group.scale.cooldown:g} s"
        if len(taking) > group.scale.max:
            why = f"at most {group.scale.max}"
        self._tell(group, len(taking), len(taking) - count, why)

    def _drain(self, group: ScaledAgents, cell: Cell) -> None:
        self._agent_host.begin_leaving([cell])
        with self._lock:
            if cell in group.going:
                group.going[cell] = True

    def _left(self, cell: Cell) -> None:
        """Take note that an instance gave up, or is not restarted."""
        for group in list(self._groups):
            if (began := group.cells.get(cell)) is not None and cell not in group.going:
                if self._resources.monotonic() - began < _LONGEST:
                    self._failed(group)
                else:
                    group.failures = 0

    def _made_again(self, cell: Cell) -> None:
        """Take note that an instance has another cell, as it did not start alone."""
        with self._lock:
            for group in self._groups:
                for old in [one for one in group.cells if one.name == cell.name and one is not cell]:
                    group.cells[cell] = group.cells.pop(old)
                    if old in group.going:
                        group.going[cell] = group.going.pop(old)

    def _tell(self, group: ScaledAgents, before: int, instances: int, why: str) -> None:
        logger.info("%s: %d -> %d instances: %s", group.name, before, instances, why)
        names = [cell.name for cell in list(group.cells)]
        is_base = any(name == group.name or name.startswith(f"{group.name}-") for name in names)
        source = group.name if is_base or not names else names[0]  # the broker takes it of a node's own instances
        body = pack({"before": before, "instances": instances, "why": why})
        self._sender.send(pack_envelope(Kind.SCALE, source=source.encode(), body=body))
        self._sender.flush()


def _pause(failures: int) -> float:
    return min(_LONGEST, _PAUSE * 2.0 ** min(failures - 1, 16))
