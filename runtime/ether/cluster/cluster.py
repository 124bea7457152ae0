"""A cluster: a broker and its nodes, each a process of its own on this machine.

with Cluster(nodes=2, agents=["agents:Scout"]) as cluster, Runtime.connect(cluster.url) as bus:
    bus.delegate("code.scout", {"path": "."}).result()

Cluster ──► ProcessSupervisor ──┬── broker      socket and supervisor, no agent's code
                                ├── node-1      agents
                                └── node-2      agents
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ether.cluster.cluster_spec import AgentLike, AgentSpec, ClusterSpec, NamedAgents, NodeSpec, name_agents
from ether.cluster.reloading.hosted_node import HostedNode
from ether.cluster.reloading.reload import Reload
from ether.cluster.reloading.reload_report import ReloadReport
from ether.cluster.reloading.reload_requests import ReloadRequests, check_regular
from ether.cluster.reloading.spec_changes import check_reload
from ether.errors import ProcessFailed
from ether.process.output_reader import to_stderr
from ether.process.parent_link import is_starting
from ether.process.process_supervisor import ProcessSpec, ProcessStatistics, ProcessSupervisor
from ether.process.signals import Stopping
from ether.runtime_arguments import check_may_block
from ether_broker.discovery.own_clusters import ClusterAddress
from ether_broker.errors import Closed, UsageError, WaitTimeout
from ether_broker.journal.location import UNNAMED, default_journal, is_by_origin, link_last_started
from ether_broker.name_hint import nearest
from ether_broker.security.access_list import RegisterRule
from ether_broker.transport.endpoint import default_endpoint

if TYPE_CHECKING:
    from ether_broker.discovery.advertiser import Advertiser
    from ether_broker.security.keys import KeyPair

__all__ = ["GAVE_UP", "AgentSpec", "Cluster", "ClusterSpec", "NodeSpec", "up"]

GAVE_UP: Final = 70
"""Exit code of `up` when the cluster gave up, as a process ended too often."""
BROKER_PAUSE: Final = 1.0
"""Seconds between two restarts of the broker at most, but for a `backoff` that begins with more."""
_BROKER: Final = "broker"
_START_GRACE: Final = 1.0
"""Seconds after `start_timeout` in which a process that is not up has been killed, and that is known."""
_MAPPED: Final = re.compile(r"\[::ffff:([0-9.]+)\]")
"""An IPv4 address as a socket for both names it."""
_EVERYWHERE: Final = frozenset({"tcp://*", "tcp://0.0.0.0", "tcp://[::]"})
_PATH_ROOM: Final = 80
"""Bytes that the temporary folder's path may have, so that a socket's path in it is short enough."""


def _ignore(*_: object) -> None:
    pass


class Cluster:
    """A broker with its supervisor and any number of nodes, each a process of its own; a context manager.

    When the block is entered, all agents are registered. Leaving it drains: no new work starts, running work has
    `drain` seconds, then the processes get SIGKILL. No process, socket or file remains, and no process outlives this
    one, however this one ends. A process that dies is restarted under its name, with a growing delay. A node that dies more
    than `intensity` times within `period` seconds is given up, with a warning, and the others go on. If it is the last node or
    the broker, or the specification says `escalate`, the cluster ends all processes, and `failed` has the reason.

    The broker decides what happens to the work of a dead node (G3). A dead broker is restarted at the same address, and
    the nodes reconnect. With a journal (`journal="bus.db"`), earlier delegations continue (G2); without one, which is
    the default here, they end FAILED_EXECUTION with code `broker_lost`.

    With `advertise=True`, `ether.discover` finds the broker on the local network while it runs.

    Example:
        with Cluster(nodes=2, drain=1.0) as cluster, Runtime.connect(cluster.url, name="me") as bus:
            assert sorted(node["node"] for node in bus.nodes()) == ["me", "node-1", "node-2"]

    Args:
        nodes: the nodes; or a number of nodes, `node-1` and so on, on each of which the agents start. Or a whole
            `ClusterSpec`, which then says everything.
        agents: with a number of nodes: `module:Class`, classes of importable modules, or values of `AgentSpec`.
        on_event: told in words what happens to the processes; must be short. It and `on_output` are called in a thread with a
            running event loop, so `asyncio.run` is refused there.
        on_output: gets each line that a process prints, with its name; default: to our stderr.
        on_failed: told once why the cluster gave up.
        fields: any other field of `ClusterSpec`; and with a number of nodes or their specs `durability`, as in a cluster file:
            `journal` keeps the journal of the cluster's `name`, where none is named, `memory` keeps none.

    Raises:
        InvalidSpec, InvalidEndpoint: as `ClusterSpec`.
    """

    def __init__(
        self,
        nodes: int | Iterable[NodeSpec] | ClusterSpec = 1,
        agents: Iterable[AgentLike] = (),
        *,
        on_event: Callable[[str], None] = _ignore,
        on_output: Callable[[str, str], None] = to_stderr,
        on_failed: Callable[[ProcessFailed], None] = _ignore,
        **fields: Any,
    ) -> None:
        if isinstance(nodes, ClusterSpec):
            if fields or tuple(agents):
                raise UsageError("A ClusterSpec says everything: put the other arguments into it.")
            self.spec: ClusterSpec = nodes
        else:
            self.spec = ClusterSpec.of(nodes, agents, **fields)
        self._watchers: dict[str, Any] = {
            "on_event": on_event, "on_output": on_output, "on_failed": on_failed
        }  # fmt: skip
        self._process_supervisor: ProcessSupervisor | None = None
        self._advertiser: Advertiser | None = None
        self._folder: str | None = None
        self._url = ""
        self._bind = ""
        self._keys: Path | None = None
        self._fingerprint: str | None = None
        self._pairs: dict[str, KeyPair] = {}
        self._artifact_secrets: defaultdict[str, str] = defaultdict(lambda: os.urandom(32).hex())
        """Of each node, in hex: what it offered in one life can be fetched in the next."""
        self._hosted: dict[str, HostedNode] = {}
        """What each node's process is asked for when it starts."""
        self._never_up: Mapping[str, str] = {}
        """Agents that had not been up yet when the last reload ended, and why."""
        self._admitted: list[HostedNode] = []
        """Nodes that may host and observe what they do, whatever the access list says."""
        self._is_up = False
        self._reloading = threading.Lock()

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Start all processes and wait until all agents are registered; the same as entering the `with` block.

        Raises:
            UsageError: it is open already; or a script does this while one of its nodes imports it.
            AddressInUse: somebody has the address.
            MissingExtra: it is to be advertised, and the extra `lan` is not installed.
            DiscoveryUnavailable: it is to be advertised, and the system does not let us use multicast DNS.
            InsecureEndpoint: other machines could reach it, and there are no keys.
            InvalidKey: the keys cannot be used.
            InvalidSpec: an agent's `module:Class` cannot be imported, or is no agent.
            ProcessFailed: a process did not come up in time, or an agent's `__init__` or `on_start` raised.
            EtherError: any other that a process met as it started; in all cases nothing is left running.
        """
        if self._process_supervisor is not None:
            raise UsageError("The cluster is open already: open it once, or make another.")
        if is_starting():
            raise UsageError(
                "A node that imports this module would open a cluster of its own, and so on without end: "
                'put what the script does under `if __name__ == "__main__":`.'
            )
        spec = self.spec
        named = zip(spec.nodes, name_agents(spec.nodes), strict=True)
        self._hosted = {node.name: HostedNode.of(node, agents) for node, agents in named}
        self._admitted = list(self._hosted.values())
        if spec.advertise:
            from ether_broker.discovery.mdns import require

            require()
        self._process_supervisor = process_supervisor = ProcessSupervisor(
            intensity=spec.intensity, period=spec.period, backoff=spec.backoff, **self._watchers
        )
        self._bind = spec.bind or self._private_endpoint()
        try:
            process_supervisor.start()
            self._make_keys()
            self._start_all(process_supervisor)
        except BaseException:
            process_supervisor.kill(but_last=True)
            self.close()
            raise
        return self

    def _start_all(self, process_supervisor: ProcessSupervisor) -> None:
        spec = self.spec
        process_supervisor.add(self._process(_BROKER, "ether.cluster.broker_main", self._broker_request, last=True))
        broker = process_supervisor.wait_up(_BROKER)
        self._bind, self._url = _settled(self._bind, broker["endpoint"])
        if spec.journal is not None:
            unended = broker["unended"]
            left = f" goes on; its delegations without an outcome: {unended:,}" if unended else " is the journal"
            self._watchers["on_event"](f"{spec.journal}{left}")
        for node in spec.nodes:
            process_supervisor.add(self._node_process(node.name))
        for node in spec.nodes:
            process_supervisor.wait_up(node.name)
        self._is_up = True
        if is_by_origin(spec.journal):
            _link_journal(spec, self._watchers["on_event"])
        if spec.advertise:
            self._advertise(process_supervisor)

    def _advertise(self, process_supervisor: ProcessSupervisor) -> None:
        """Announce the broker, now that its agents are up; whenever it is down, it is not announced."""
        from ether.cluster.advertising import advertise

        self._advertiser = advertise(
            self.spec.name,
            self._bind,
            is_up=partial(process_supervisor.is_up, _BROKER),
            on_event=self._watchers["on_event"],
            fingerprint=self._fingerprint,
        )

    def close(self, drain: float | None = None) -> None:
        """Drain and end; the same as leaving the `with` block. A second call does nothing.

        Args:
            drain: 0 ends all processes at once; default: the spec's.
        """
        process_supervisor = self._process_supervisor
        if process_supervisor is None:
            return
        try:
            if drain == 0:
                process_supervisor.kill()
            if self._advertiser is not None:
                self._advertiser.close()
            process_supervisor.stop()
        except BaseException:  # such as a second Ctrl-C
            process_supervisor.kill()
            raise
        finally:
            process_supervisor.close()
            self._process_supervisor = self._advertiser = None
            self._is_up = False
            self._remove_files()

    def reload(self, spec: ClusterSpec) -> ReloadReport:
        """Start, restart and stop what has changed in the specification, and nothing else; return when that is done.

        What may change is `nodes`. New agents and nodes start first. An agent of which anything has changed
        gets nothing new, ends what it works at, and is started anew under its name; what waits for it, what comes meanwhile
        and its state are kept, also if it moves to another node. Agents and nodes that are not in the specification any more
        end likewise, and what waits for them goes to others, or is refused, as when a node leaves. Where `threads`,
        `observers` or `metrics` have changed, the node's process is restarted, one node after the other; as long as it is down,
        delegations to its agents by name are refused (`agent_down`). An agent that scales takes other bounds while its
        instances run; they are replaced if anything else of it has changed. What still runs after `drain`
        seconds is ruled on as when its agent is lost. Everybody else goes on, their processes and what they work at.

        A node that is down is started before, as it was. If it does not come up in `start_timeout` seconds, it is not started
        as it was any more: it is started as a new one, or is gone if it is to go.

        What does not start takes nothing else down, and the report has the error. An agent is started again by its own
        `restart`, `intensity`, `period` and `backoff`; one that takes longer than `start_timeout` goes on starting. A new
        node's process is not started again, until the next reload. A node that ran, and whose process does not start with what
        has changed, or dies of it, is started as it was; that does not count towards the cluster's `intensity`.

        A second call waits until the first is done. It may be called in any thread.

        Args:
            spec: the whole cluster, as it is to be.

        Returns:
            What became of each node and agent.

        Raises:
            UsageError: it is no specification, or this thread runs an event loop, which would stand still.
            InvalidSpec: something else has changed, which belongs to the broker or to the cluster as a whole; nothing was done.
            Unserialisable: an argument of an agent or observer cannot travel to its node's process; nothing was done.
            WaitTimeout: there are keys or an access list, and the broker did not take them over in time; nothing was done, but
                that nodes which were down were started.
            Closed: the cluster is not open, or ends.
        """
        if not isinstance(spec, ClusterSpec):
            raise UsageError(f"A reload takes a ClusterSpec, and this is {spec!r:.80}.")
        check_may_block("cluster.reload", "cluster.reload, spec")
        with self._reloading:
            return self._reload(self._opened(), spec)

    def _reload(self, process_supervisor: ProcessSupervisor, spec: ClusterSpec) -> ReloadReport:
        if is_by_origin(self.spec.journal) and is_by_origin(spec.journal):  # of another file without a name
            spec = replace(spec, journal=self.spec.journal)
        check_reload(self.spec, spec)
        with process_supervisor.defer_end():
            report = self._change_to(process_supervisor, spec)
        try:
            self._admit(list(self._hosted.values()))
        except WaitTimeout as error:
            report = replace(report, failed={**report.failed, _BROKER: str(error)})
        for line in report.lines():
            self._note(f"reload: {line}")
        return report

    def _change_to(self, process_supervisor: ProcessSupervisor, spec: ClusterSpec) -> ReloadReport:
        """Have every node come up that can, and then make the steps of a reload."""
        process_supervisor.end_backoffs(spec.start_timeout + _START_GRACE)
        known = {name: self._current(name) for name in self._hosted}
        reload = Reload(
            process_supervisor, known, spec.nodes, self._node_process, self._current, self._note, self._never_up
        )  # fmt: skip
        self._admit([*reload.hosted.values(), *reload.wanted.values()])
        reload.remove_down()
        self.spec, self._hosted = spec, reload.hosted
        report = reload.run()
        self._never_up = reload.never_up
        return report

    def _admit(self, nodes: list[HostedNode]) -> None:
        """Let these nodes into the bus and none that was before, where there are keys or an access list.

        Raises:
            WaitTimeout: the broker does not answer.
        """
        self._admitted = nodes
        names = {node.spec.name for node in nodes}
        if self._keys is not None:
            from ether_broker.security.keys import KeyPair

            self._pairs = {name: self._pairs.get(name) or KeyPair.new() for name in names}
        if self._keys is not None or self.spec.access is not None:
            request = self._broker_request()
            told = {"access": request["access"], "members": request["security"]["members"]}
            with contextlib.suppress(ProcessFailed):  # the next broker starts with it
                self._opened().ask(_BROKER, told, self.spec.start_timeout)

    def _note(self, event: str) -> None:
        with contextlib.suppress(Exception):  # as of the process supervisor: it may be that nobody reads it any more
            self._watchers["on_event"](event)

    def kill(self) -> None:
        """End all processes at once, and return before they have; `close` is still to be called."""
        if self._process_supervisor is not None:
            self._process_supervisor.kill()

    def signal(self, name: str, number: int) -> int | None:
        """Send a signal to one of the processes, as a test of what depends on the cluster may want to.

        Args:
            name: `broker`, or a node's.
            number: of the signal. A process that ends of it is started again.

        Returns:
            The process id; None when the process is between two lives.

        Raises:
            UsageError: there is no process of that name.
            Closed: it is not open.
        """
        names = [_BROKER, *(node.name for node in self.spec.nodes)]
        if self._process_supervisor is not None:  # in a reload there are others than the specification has
            names += [one.name for one in self._process_supervisor.statistics() if one.name not in names]
        if name not in names:
            raise UsageError(f"The cluster has no process {name!r}.{nearest(name, names)}")
        return self._opened().signal(name, number)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:

        async def __aenter__(self) -> Self:
            raise UsageError(
                "A Cluster is opened by a plain `with`. In an event loop, which that would hold up, write "
                "await asyncio.to_thread(cluster.open), and in `finally` await asyncio.to_thread(cluster.close)."
            )

        async def __aexit__(self, *_: object) -> None:  # Python looks for it before it enters
            raise NotImplementedError

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """What to connect to from this machine.

        Raises:
            Closed: it is not open.
        """
        self._opened()
        return self._url

    @property
    def failed(self) -> ProcessFailed | None:
        """Why the cluster gave up and ended; None while it has not."""
        return self._opened().failed

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the cluster has given up; False when `timeout` seconds were over before."""
        return self._opened().wait(timeout)

    def statistics(self) -> list[ProcessStatistics]:
        """How each process stands: the broker, then the nodes."""
        return self._opened().statistics()

    def _opened(self) -> ProcessSupervisor:
        if self._process_supervisor is None:
            raise Closed("The cluster is not open: use it in a `with` block.")
        return self._process_supervisor

    # -- what the processes are asked ----------------------------------------------------------------------------

    def _process(
        self, name: str, module: str, request: Callable[[], dict[str, Any]], *, last: bool = False
    ) -> ProcessSpec:  # fmt: skip
        spec, backoff = self.spec, None
        if last:  # everybody waits for the broker
            backoff = replace(spec.backoff, maximum=max(spec.backoff.initial, min(spec.backoff.maximum, BROKER_PAUSE)))
        drain = 0.0 if last else spec.drain
        return ProcessSpec(
            name, module, request, drain, spec.start_timeout, last, backoff, escalate=last or spec.escalate
        )

    def _broker_request(self) -> dict[str, Any]:
        limits = self.spec.limits
        return {
            "bind": self._bind,
            "folder": self._folder,
            "drain": self.spec.drain,
            "journal": self.spec.journal,
            "again": bool(self._url),
            "limits": dataclasses.asdict(limits),
            "timing": self.spec.timing.as_dict(),
            "security": {
                "keys": None if self._keys is None else str(self._keys),
                "members": {pair.public: name for name, pair in self._pairs.items()},
                "insecure": self.spec.insecure,
            },
            "access": self._access(),
        }

    def _node_process(self, name: str) -> ProcessSpec:
        return self._process(name, "ether.cluster.node_main", partial(self._node_request, name))

    def _node_request(self, name: str) -> dict[str, Any]:
        node, agents, serial = self._current(name)
        return {
            "url": self._url,
            "name": name,
            "threads": node.threads,
            "drain": self.spec.drain,
            "log_level": self.spec.log_level,
            "agents": [{"agent": agent.as_dict(), "names": names} for agent, names in agents],
            "serial": serial,
            "again": self._is_up or bool(self._opened().facts(name)),
            "start_timeout": self.spec.start_timeout,
            "observers": [observer.as_dict() for observer in node.observers],
            "metrics": None if node.metrics is None else node.metrics.as_dict(),
            "takes_metrics_over": self._takes_metrics_over(name),
            "security": self._node_keys(node.name),
            "artifact_secret": self._artifact_secrets[node.name],
        }

    def _takes_metrics_over(self, name: str) -> bool:
        """Whether another node, which a reload is about to end or change, has the address of this one's metrics."""
        metrics = self._hosted[name].spec.metrics
        others = [one.spec.metrics for node, one in self._hosted.items() if node != name]
        return metrics is not None and any(map(metrics.overlaps, others))

    def _current(self, name: str) -> HostedNode:
        """A node with its agents under the names that they had in its last life: their mailboxes are kept by name."""
        hosted, facts = self._hosted[name], self._opened().facts(name)
        if facts.get("serial") != hosted.serial:
            return hosted
        named = zip(hosted.agents, facts["agents"], strict=True)
        return hosted._replace(agents=[NamedAgents(kind.agent, tuple(names)) for kind, names in named])

    def _access(self) -> dict[str, Any] | None:
        """The spec's access list, by which the cluster's own nodes may host and observe what the spec gives them."""
        spec = self.spec
        if spec.access is None:
            return None
        rules = [
            RegisterRule(node.spec.name, [name for named in node.agents for name in named.patterns])
            for node in self._admitted
        ]
        specs = [node.spec for node in self._admitted]
        watching = [node.name for node in specs if node.observers or node.metrics is not None]
        return spec.access.extended(register=rules, observe=watching).as_dict()

    def _make_keys(self) -> None:
        """A pair for each node: none of them is the broker's, or another node's, and none is ever in a file.

        Raises:
            InvalidKey: the spec's folder cannot be used.
        """
        if self.spec.keys is None or not self._bind.startswith("tcp://"):
            return
        from ether_broker.security.keyring import Keyring
        from ether_broker.security.keys import KeyPair

        keyring = Keyring(self.spec.keys)
        self._keys, self._fingerprint = keyring.folder.absolute(), keyring.own.fingerprint
        self._pairs = {node.name: KeyPair.new() for node in self.spec.nodes}

    def _node_keys(self, name: str) -> dict[str, str] | None:
        if self._keys is None:
            return None
        pair = self._pairs[name]
        return {"public": pair.public, "secret": pair.secret, "server_key": str(self._keys / "own.key")}

    def _private_endpoint(self) -> str:
        """A socket in a folder that only this user may enter."""
        base = tempfile.gettempdir()
        if len(base.encode()) > _PATH_ROOM:
            base = "/tmp"  # noqa: S108  mkdtemp's folder is its owner's alone
        self._folder = tempfile.mkdtemp(prefix="ether-", dir=base)
        return f"ipc://{self._folder}/broker.sock"

    def _remove_files(self) -> None:
        """Remove what a broker that was killed has left."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        elif self._url.startswith("ipc://"):  # empty unless it was this cluster's broker that bound it
            Path(self._url.removeprefix("ipc://")).unlink(missing_ok=True)
        self._url = ""


def _settled(bind: str, endpoint: str) -> tuple[str, str]:
    """The address to bind again, with the port that was found, and where it is reached from this machine."""
    if not bind.startswith("tcp://"):
        return bind, bind
    host, port = bind.rpartition(":")[0], endpoint.rpartition(":")[2]
    if host in _EVERYWHERE:
        return f"{host}:{port}", f"tcp://127.0.0.1:{port}"
    return f"{host}:{port}", _MAPPED.sub(r"\1", endpoint)


def _link_journal(spec: ClusterSpec, on_event: Callable[[str], None]) -> None:
    """Have commands that name neither a journal nor a cluster read that of a cluster without a name, or none if it has none."""
    if spec.name == UNNAMED and not link_last_started(spec.journal):
        told = "is no link, so commands read it that name neither a journal nor a cluster: move it away"
        on_event(f"{default_journal()} {told}")


def _load(file: str) -> ClusterSpec:
    from ether.cluster.file.file_loader import load

    return load(file)


def _with_address(spec: ClusterSpec) -> ClusterSpec:
    """The same at the user's default address, where it says none."""
    return spec if spec.bind is not None else spec.bound_to(default_endpoint(spec.name))


def up(
    spec: ClusterSpec,
    *,
    on_event: Callable[[str], None],
    on_up: Callable[[str], None] = _ignore,
    file: str | None = None,
    read: Callable[[str], ClusterSpec] | None = None,
) -> int:
    """Run a cluster until SIGTERM or SIGINT; in the main thread only.

    The first signal drains, a second one ends all at once. Without `bind` in the spec, the broker has the user's
    default address for the cluster's name, where `Runtime.connect` of other programs finds it.

    SIGHUP, and the command `ether reload` of the same user, read the cluster file again and reload the cluster, as
    `Cluster.reload`; a file that is not valid changes nothing, and is told. Where there is no file, or SIGHUP comes as this
    process's terminal is closed, SIGHUP is as SIGTERM.

    Args:
        spec: the cluster.
        on_event: told in words what happens, and each line that a process prints, as `name | line`.
        on_up: told the bus's URL when all agents are up.
        file: the cluster file of the spec. If `ether reload` names another, that one takes its place.
        read: reads a cluster file; default: `load`, without options of a command line.

    Returns:
        The exit code: 0 after a drain, `GAVE_UP` when the cluster gave up, 128 and the number of the second
        signal.

    Raises:
        AddressInUse: another cluster of this user has the name, wherever it is bound.
        EtherError: the cluster did not come up; as `Cluster.open`.
    """
    spec = _with_address(spec)
    known = file
    cluster: Cluster

    def reload(named: str | None) -> ReloadReport:
        nonlocal known
        if (wanted := named or known) is None:
            raise UsageError("The cluster was started without a file: name one, as in `ether reload bus.yaml`.")
        path = check_regular(wanted)
        report = cluster.reload(_with_address((read or _load)(wanted)))
        known = wanted
        return replace(report, file=str(path.absolute()))

    def hang_up() -> bool:
        if known is not None:
            requests.post()
        return known is not None

    with (
        ReloadRequests(spec.name, reload, on_event) as requests,
        Stopping(lambda _number: cluster.kill(), hang_up) as stopping,
    ):
        cluster = Cluster(
            spec,
            on_event=on_event,
            on_output=lambda name, line: on_event(f"{name} | {line}"),
            on_failed=lambda error: stopping.post(str(error)),
        )
        with cluster:
            _link_journal(spec, on_event)
            default = default_endpoint(spec.name)
            with contextlib.nullcontext() if cluster.url == default else ClusterAddress(default, cluster.url):
                on_event(f"the cluster {spec.name} is up at {cluster.url}")
                requests.serve()
                on_up(cluster.url)
                reason = stopping.wait()
            failed = cluster.failed
            if failed is None:
                on_event(f"ending ({reason}); running work has {spec.drain:g} s")
    if stopping.signals > 1:
        return 128 + stopping.last
    return GAVE_UP if failed else 0
