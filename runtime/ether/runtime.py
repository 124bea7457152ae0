"""The runtime: what a user holds. It embeds a whole bus, or joins one; the code that uses it is the same."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from ether.agent_ref import AgentRef, check_agent_name
from ether.bus_address import absence, bus_address
from ether.dead_letter import DeadLetterView
from ether.node.monitor import Monitor
from ether.runtime_arguments import (
    check_given,
    check_may_block,
    check_seconds,
    check_start,
    credentials_of,
    keyring_of,
    node_name,
)
from ether_actors.agent.agent import Agent, default_name, free_names
from ether_actors.agent.publishing import publish_params
from ether_actors.agent.scale import Scale
from ether_actors.delegator.handle import Handle
from ether_actors.delegator.mapped import WINDOW, Mapped
from ether_actors.delegator.options import DelegateOptions, check_each, check_keywords
from ether_actors.delegator.retry import Retry, check_retry
from ether_actors.number_check import check_number, is_count
from ether_actors.observers.observer import Observer, check_hooks
from ether_broker.envelope.delegation import LONGEST_TIMEOUT, Budget, Delegation, Durability
from ether_broker.envelope.names import PUBLISH, check_names
from ether_broker.envelope.payload import Payload, pack
from ether_broker.errors import BrokerUnavailable, Closed, DuplicateAgent, InvalidEndpoint, UsageError
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.name_hint import misses
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.endpoint import IPC
from ether_broker.wire.codec import id_bytes

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from ether.node.backends import Context
    from ether.node.embedded_broker import EmbeddedBroker
    from ether.node.node import Node
    from ether_actors.agent.composable import ComposableAgent
    from ether_actors.restarts.supervisor_spec import SupervisorSpec
    from ether_broker.envelope.artifact import Artifact
    from ether_broker.envelope.fields import DelegationFields
    from ether_broker.envelope.response import Response
    from ether_broker.envelope.views.suggestion import SuggestionRecord
    from ether_broker.security.access_list import Access
    from ether_broker.security.credentials import KeysLike, ServerKey
    from ether_broker.security.keyring import Keyring

__all__ = ["DRAIN", "Runtime"]

logger: logging.Logger = logging.getLogger("ether.runtime")
_LISTENS: Final = "an agent with an `@on_event` method gets events: bus.start(Listener)"
_ELSEWHERE: Final = {
    "after": "self.bus.after(seconds, …) of an agent",
    "emit": "bus.publish(topic, data)",
    "on_event": _LISTENS,
    "state": "bus.states() lists what agents have saved; ask the agent by a capability for what is in it",
    "subscribe": _LISTENS,
}
DRAIN: Final = 5.0
"""Seconds that running work has when a runtime is closed."""
_JOIN: Final = 10.0
_SECRET: Final = 32
_HOLDERS: Final = 1_024
"""Holders of a broadcast, as an event has subscribers."""
_NAMES: Final = 250
"""Names that one question to the bus has: with the longest there are, it has 50 KB of the 64 that are read."""
_MOST_KNOWN: Final = 10_000
"""Pairs of capability and target that are remembered to be valid; others are checked each time."""
_O = TypeVar("_O", bound=Observer)


class Runtime:
    """A bus embedded in this process, or a node of a bus that runs elsewhere; a context manager, with `with` or `async with`.

        with Runtime(bind="tcp://127.0.0.1:*") as bus:   # a bus of one's own, which others can join
            bus.start(Counter)
            with Runtime.connect(bus.url) as other:      # a node of that bus
                assert other.delegate("text.count", {"text": "two words"}).result().data == 2

    Leaving the block drains the runtime: it accepts no new work, running work has `drain` seconds, and then open
    delegations of this runtime end CANCELLED.
    Every method may be called from any thread.

    Args:
        name: of the node, unique on the bus; default: host, process id and four random letters.
        threads: plain handlers that run here at a time, not counting those that wait for sub-delegations; more while
            they wait for something other than the bus (docs/agents.md). Those in threads that called `ask` come on top.
        limits: bounds of the agents' mailboxes at the embedded broker.
        timing: the heartbeats of the embedded broker and its nodes, and how long each waits for the other's.
        drain: seconds for running work when the runtime is closed.
        bind: an address for the embedded broker, so that others can join too; default: none, only this process.
        keys: a folder of keys (`ether keys new`), or a `Keyring`: TCP is encrypted, and only allowed keys can connect.
            Other addresses do not use keys.
        insecure: whether `bind` may be an address that other machines reach, without keys.
        access: the access list for nodes that join at `bind`; this runtime itself may do everything. Default: every
            node may do everything.
        journal: the file in which the embedded broker stores all messages, so that accepted work survives the broker
            (durability `journal`, G2); a missing folder is created for this user alone. Default: no journal (durability
            `memory`).

    Raises:
        InvalidKey: `keys` cannot be used.
        InvalidSpec: `threads` is no whole number above 0, or `drain` no number of seconds.
        UsageError: another keyword has a value of another class, or an empty text.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        threads: int = 4,
        limits: Limits | None = None,
        drain: float = DRAIN,
        bind: str | None = None,
        journal: str | os.PathLike[str] | None = None,
        keys: Keyring | Path | str | None = None,
        insecure: bool = False,
        access: Access | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        check_given(bind=bind, journal=journal, limits=limits, timing=timing)
        self._keyring = keyring_of(keys)
        self._credentials = None if self._keyring is None else credentials_of(self._keyring)
        self._insecure = insecure
        self._name = node_name(name, self._credentials)
        if access is not None and not hasattr(access, "extended"):
            raise UsageError(f"access={access!r:.40}: an Access, as in Access(delegate=…), or None.")
        self._access = None if access is None else access.extended(owners=[self._name])
        check_number(type(self).__name__, "threads", threads, "a whole number of threads, 1 or more", is_count)
        check_seconds(type(self).__name__, "drain", drain)
        self._threads = threads
        self._limits = limits
        self._timing = timing
        self._drain = drain
        self._bind = bind
        self._journal = journal
        self._url: str | None = None
        self._join_timeout = _JOIN
        self._context: Context | None = None
        self._broker: EmbeddedBroker | None = None
        self._node: Node | None = None
        self._artifact_secret: bytes | None = None
        self._known: set[tuple[str, str | None]] = set()
        """Capability and target of requests that were valid: the same few come again and again."""

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        name: str | None = None,
        threads: int = 4,
        drain: float = DRAIN,
        timeout: float = _JOIN,
        keys: KeysLike | None = None,
        server_key: ServerKey | None = None,
        artifact_secret: bytes | None = None,
    ) -> Self:
        """A runtime that joins the bus at `url` when it is opened.

        Args:
            url: `tcp://HOST:PORT` or `ipc:///PATH`; `ipc://NAME` is this user's bus that `ether up --name NAME` runs; or
                `lan://NAME`, the broker that is advertised under that name on the local network when the runtime is opened,
                and `lan://` for the only one there is.
            name: as above.
            threads: as above.
            drain: as above.
            timeout: seconds to wait for the broker's answer.
            keys: the folder with this node's key pair, a `Keyring`, or a `KeyPair`; for TCP only. The default of `name`
                is then `KEYNAME/…`, which the broker allows for a key of that name.
            server_key: the broker's public key or its file, or several, of which one must be the broker's; default: the
                one in `keys`, as on the broker's machine.
            artifact_secret: 32 random bytes: artifacts that a runtime of this name and secret offered can still be fetched when
                it is started again; default: other ones each time. Whoever knows it can read every file of this process.

        Raises:
            InvalidEndpoint: `url` is empty or no text.
            InvalidKey: `keys` or `server_key` cannot be used.
            InvalidSpec: `threads`, `drain` or `timeout` is no number that can be.
            UsageError: a `server_key` without `keys`, or an `artifact_secret` that is not of 32 bytes.
            AuthenticationFailed: on opening; broker and node do not accept each other's keys.
            InvalidEndpoint: on opening; not an address.
            BrokerUnavailable: on opening; no broker answers there.
            NodeRefused: on opening; the broker refuses this node.
            MissingExtra, UntrustedBroker, UsageError, EtherError: on opening, with `lan://`; as
                `ether_broker.discovery.locate`.
        """
        if not isinstance(url, str) or not url.strip():
            raise InvalidEndpoint(
                f"connect takes the address of a bus, such as ipc://NAME or tcp://HOST:PORT, and this is {url!r:.80}. "
                "A bus of this process alone is Runtime()."
            )
        if keys is None and server_key is not None:
            raise UsageError("A server_key goes with keys of our own: `ether keys new` makes some.")
        if artifact_secret is not None and (type(artifact_secret) is not bytes or len(artifact_secret) != _SECRET):
            raise UsageError(f"artifact_secret: {_SECRET} random bytes, such as secrets.token_bytes({_SECRET}).")
        credentials = None if keys is None else credentials_of(keys, server_key)
        check_seconds("connect", "timeout", timeout)
        runtime = cls(name=node_name(name, credentials), threads=threads, drain=drain)
        runtime._credentials = credentials
        runtime._url = url
        runtime._join_timeout = timeout
        runtime._artifact_secret = artifact_secret
        return runtime

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise misses(self, name, _ELSEWHERE)

    # -- life ----------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Start; the same as entering the `with` block.

        Raises:
            UsageError: it is open already.
            AddressInUse, InvalidEndpoint, BrokerUnavailable, NodeRefused: as the constructors say.
            JournalLocked, JournalCorrupt, JournalTooNew, JournalUnavailable: the journal cannot be used.
            InsecureEndpoint: other machines could reach `bind`, and there are no keys.
        """
        if self._node is not None:
            raise UsageError("The runtime is open already: open it once, or make another.")
        from ether.node.backends import make_clock, make_context, make_link
        from ether.node.embedded_broker import EmbeddedBroker
        from ether.node.node import Node
        from ether_actors.execution.resources import Resources
        from ether_actors.threads.pool import Pool

        self._context = None if self._url is None and self._bind is None else make_context()
        try:
            url, link, pool = (
                None if self._url is None else bus_address(self._url, self._credentials),
                None,
                Pool(self._threads),
            )
            if url is None:
                broker = self._broker = EmbeddedBroker(
                    self._bind, self._context, self._limits, self._journal,
                    keyring=self._keyring, insecure=self._insecure,
                    access=self._access, timing=self._timing,
                )  # fmt: skip
                broker.step_in(pool)
                url, link = broker.endpoint, broker.link
            if link is None:
                assert self._context is not None
                link = make_link(url, self._context, self._credentials)
            node = Node(self._name, link, Resources(make_clock(), pool=pool), self._artifact_secret)
            try:
                node.join(self._join_timeout)
            except BaseException as error:
                link.close(0.0)
                if isinstance(error, BrokerUnavailable) and url.startswith(IPC):
                    raise absence(url, error) from None
                raise
        except BaseException:
            self._stop_broker()
            raise
        self._node = node
        return self

    def _stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None

    def close(self, drain: float | None = None) -> None:
        """Drain and end; the same as leaving the `with` block. A second call does nothing.

        Args:
            drain: seconds for running work; default: the constructor's.

        Raises:
            InvalidSpec: `drain` is no number of seconds; the runtime stays open.
        """
        if drain is not None:
            check_seconds("close", "drain", drain)
        node, self._node = self._node, None
        if node is not None:
            node.close(self._drain if drain is None else drain)
            self._stop_broker()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close(0.0 if kind is not None else None)

    async def __aenter__(self) -> Self:
        """Open it in a thread, so that the event loop goes on; a task that is cancelled meanwhile leaves nothing open."""
        import asyncio

        lock, is_left = threading.Lock(), False

        def open_unless_left() -> None:
            self.open()
            with lock:
                is_wanted = not is_left
            if not is_wanted:
                self.close(0.0)

        opening: asyncio.Future[None] = asyncio.ensure_future(asyncio.to_thread(open_unless_left))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            with lock:
                is_left = True
            if self._node is not None:  # it looked before
                threading.Thread(target=self.close, args=(0.0,), name="ether-close").start()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        """Close it in a thread, as `__exit__` does."""
        import asyncio

        await asyncio.shield(asyncio.to_thread(self.close, 0.0 if kind is not None else None))

    @property
    def node(self) -> Node:
        """The node underneath.

        Raises:
            Closed: the runtime is not open.
        """
        if self._node is None:
            raise Closed("The runtime is not open: use it in a `with` block.")
        return self._node

    @property
    def name(self) -> str:
        """The node's name, in which plain code delegates."""
        return self._name

    @property
    def url(self) -> str:
        """The address of the broker, for others to `connect` to; an `inproc://` one is for this process only.

        Raises:
            Closed: the runtime is not open.
        """
        return self.node.endpoint

    # -- agents --------------------------------------------------------------------------------------------------

    def start(
        self,
        agent: type[ComposableAgent] | Callable[..., ComposableAgent],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> AgentRef:
        """Start an agent here; it is in the registry when this returns.

        Args:
            agent: the class, or a callable that returns an agent; called again for each restart. The agent is an Agent,
                or has spec 1's `execute`, `can_handle` and `capabilities` (`ComposableAgent`).
            args: for the class.
            name: on the bus; default: the class's name as `code-reviewer`, with a number if that is taken here.
            kwargs: for the class.

        Raises:
            DuplicateAgent: the name is taken.
            InvalidManifest: the class declares something impossible.
            UsageError: it is no agent's class, or there is a `scale`, which `start_many` takes.
            Exception: what `__init__` or `on_start` raised.
        """
        if isinstance(kwargs.get("scale"), Scale):
            raise UsageError("start makes one agent: bus.start_many(…, scale=…) makes as many as its queue needs.")
        return self._start(agent, 1, None, name, args, kwargs)[0]

    def start_many(
        self,
        agent: type[ComposableAgent] | Callable[..., ComposableAgent],
        count: int | None = None,
        *args: Any,
        name: str | None = None,
        scale: Scale | None = None,
        **kwargs: Any,
    ) -> list[AgentRef]:
        """Start several agents of one kind at once; with a `name`, all but the first get a number behind it.

        Args:
            agent: as of `start`.
            count: how many; not with `scale`.
            args: for the class, after a count; beside a `scale` they are given by keyword.
            name: of the first; default: as of `start`.
            scale: bounds within which instances come and go with what waits for them (docs/scaling.md); `stop_many` ends
                them all. Those that are there at first are returned.
            kwargs: for the class.

        Raises:
            Exception: as `start`; then none of them runs.
            UsageError: neither or both of `count` and `scale`; or the agent cannot scale, as it has a state, subscriptions or
                schedules.
        """
        if (count is None) == (scale is None):
            given = "how many, as in start_many(Writer, 4), or scale=Scale(max=8)"
            raise UsageError(f"start_many takes {given}: {'one' if count is None else 'only one'} of the two.")
        if scale is not None and not isinstance(scale, Scale):
            msg = f"start_many: scale is {scale!r:.80}; give a Scale, as in Scale(max=8). A class whose own argument has that "
            raise UsageError(f"{msg}name is started with a function, as in lambda: Zoom(scale=2).")
        return self._start(agent, 0 if count is None else count, scale, name, args, kwargs)

    def _start(  # noqa: PLR0917  as `start_many` has them
        self, agent: Callable[..., ComposableAgent], count: int, scale: Scale | None, name: str | None,
        args: tuple[Any, ...], kwargs: dict[str, Any],
    ) -> list[AgentRef]:  # fmt: skip
        from ether.node.agents.agent_host import NotStarted, warn_of_own_states
        from ether.node.agents.scalable import check_scalable
        from ether.node.agents.scaled_agent import ScaledAgent

        node = self.node
        cls = agent if isinstance(agent, type) and issubclass(agent, Agent) else None
        check_start(agent, count, cls)
        check_given(name=name)
        base = name or (default_name(agent) if isinstance(agent, type) else "agent")
        check_names(b"", base.encode(errors="replace"), b"")
        make = agent if not args and not kwargs else lambda: agent(*args, **kwargs)
        if scale is None and not count:
            return []
        try:
            if scale is None:
                is_named = name is not None and count == 1
                names = [base] if is_named else list(islice(free_names(base, node.agent_host.agent_names), count))
                cells = node.agent_host.start_agents(names, make, cls)
                warn_of_own_states(cells, base)
            else:
                if cls is not None:
                    check_scalable(cls)
                cells = node.scaling.add(ScaledAgent(
                    base, lambda: free_names(base, ()), scale, lambda names: node.agent_host.start_agents(names, make, cls)
                ))  # fmt: skip
            if cells:
                node.agent_host.warn_of_redefined(cells[0])
        except NotStarted as failure:
            raise failure.error from None
        except DuplicateAgent as error:
            if name is not None or scale is not None:  # that has said what to do
                raise
            label = getattr(agent, "__name__", "Agent")
            raise DuplicateAgent(f"{error} Pass name=, as in bus.start({label}, name='{base}-{count + 1}').") from None
        return [AgentRef(cell.name, self) for cell in cells]

    def supervise(self, spec: SupervisorSpec, timeout: float = 30.0) -> None:
        """Start a tree of agents under OTP's restart strategies, and wait until all of them run.

        Raises:
            WaitTimeout: they did not all run after `timeout` seconds; they are stopped.
            Exception: what kept the first of them from starting; then none of them runs.
        """
        from ether.node.agents.agent_host import NotStarted

        try:
            self.node.supervision.supervise(spec, timeout)
        except NotStarted as failure:
            raise failure.error from None

    def stop(self, name: str, timeout: float = 5.0) -> None:
        """Stop an agent of this node for good; as `AgentRef.stop`.

        Raises:
            UnknownAgent: it is not on this node.
            UsageError: it is no name; this thread runs a callback of a handle, or an event loop of the node; or it runs another
                event loop, and `timeout` is not 0. An `on_stop` is waited for with 0, too.
        """
        check_agent_name("stop", name)
        self._check_may_stop("bus.stop", name, timeout)
        self.node.supervision.stop_agent(name, timeout)

    def stop_many(self, name: str, timeout: float = 5.0) -> None:
        """Stop all instances of an agent that was started here with a `scale`, for good.

        What runs has `timeout` seconds, what was not started goes to other holders or is refused.

        Args:
            name: that it was started under; without one, that of its class, as `Reader` is `reader`.
            timeout: seconds.

        Raises:
            UnknownAgent: no agent of that name scales on this node.
            UsageError: as `stop`.
        """
        check_agent_name("stop_many", name)
        self._check_may_stop("bus.stop_many", name, timeout)
        self.node.scaling.stop(name, timeout)

    def _check_may_stop(self, call: str, name: str, timeout: float) -> None:
        if timeout != 0:
            check_may_block(call, f"{call}, {name!r}")
        self.node.outgoing.check_may_wait(in_own_loop=True)

    # -- work ----------------------------------------------------------------------------------------------------

    def delegate(
        self,
        capability: str,
        params: Any = None,
        *,
        to: str | None = None,
        timeout: float | None = None,
        budget: Budget | None = None,
        objective: str = "",
        context: Any = None,
        retry: Retry | None = None,
        **fields: Unpack[DelegationFields],
    ) -> Handle:
        """Delegate work; exactly one outcome comes of it (G1).

        Args:
            capability: its name; a prefix stands for any capability below it.
            params: the capability's arguments: a dict, a pydantic model, or bytes.
            to: the agent; None lets the registry choose the best holder.
            timeout: seconds to the deadline; None is the budget's `max_time_sec`, or else 60.
            budget: the limits of what the work may use.
            objective: the objective as text.
            context: the context slice; its digest is sealed into the delegation.
            retry: what outcomes are tried again; each attempt is a delegation of its own, within the same timeout.
            fields: `request_id` (of a request that is sent again), `fallback`,
                `dependency_vector`, `output_contract`, `permissions`, `criticality`, `parent`, `workflow`, `conversation`,
                `traceparent`, `durability`, `priority`, `external_id` and `extensions`; docs/agents.md says what each is.

        Raises:
            InvalidEnvelope: a field is unknown or of the wrong type, or a value cannot travel.
            PayloadTooLarge: over the bus's limit.
            Closed: the runtime is not open.
        """
        node = self._node or self.node  # which says that it is closed
        packed = pack(params, where="params", bounded=True)
        if retry is not None:
            return node.outgoing.retry(
                check_retry(retry),
                lambda timeout: self.delegate(
                    capability, Payload(packed), to=to, timeout=timeout, budget=budget, objective=objective, context=context,
                    **fields,
                ),
                self.send, timeout, is_named="request_id" in fields,
            )  # fmt: skip
        is_plain = (
            budget is None
            and context is None
            and (objective is None or objective == "")
            and not fields
            and _is_plain(capability, to, timeout)
        )
        if is_plain and (capability, to) in self._known:
            return node.outgoing.delegate_plain(to, capability, packed, None if timeout is None else float(timeout))
        wanted = {
            "capability": capability, "params": Payload(packed), "to_agent": to, "timeout": timeout, "budget": budget,
            "objective": objective, "context_slice": context,
        }  # fmt: skip
        given = {name: value for name, value in wanted.items() if value is not None}
        check_keywords(fields)
        delegation = Delegation.parse({"request_id": node.resources.new_id(), **given, **fields})
        if is_plain and len(self._known) < _MOST_KNOWN:
            self._known.add((capability, to))
        return self.send(delegation)

    def ask(
        self, capability: str, params: Any = None, *, to: str | None = None, **options: Unpack[DelegateOptions]
    ) -> Response:  # fmt: skip
        """Delegate and wait for the outcome; where it can, the calling thread runs the handler, as in a call.

        The same as `delegate(…).result()`, and faster where the calling thread runs the handler. It does so on an embedded bus
        with neither `bind` nor `journal`, if the agent is of this runtime and idle, its handler is a plain `def`, there are no
        options but `to` and `timeout`, the capability was asked for before, and nothing else is under way at that moment.
        Otherwise the handler runs where it always does: also for an agent with threads of its own, and if the caller is the
        main thread (because Ctrl-C could interrupt the broker's step there), runs an event loop or another handler for `ask`,
        or is deep in a recursion.

        Not promised, where the calling thread runs the handler: that this returns by the deadline. It returns when the handler
        has; the outcome is then TIMEOUT. `close` does not end the wait either. The handler has what is left of the caller's
        stack. Nothing is promised if another thread raises an exception in the calling one (`PyThreadState_SetAsyncExc`), as
        some time limits do.

        Hold no lock while you call this. If the handler needs the lock, the call never returns; if a `logging.Handler`
        needs it, the whole bus may stand still. In an event loop, use `await bus.delegate(…)`.

        Args:
            capability: as of `delegate`.
            params: as of `delegate`.
            to: as of `delegate`.
            options: the other keywords of `delegate`.

        Raises:
            UsageError: the calling thread runs an event loop or a callback of a handle, which must not wait.
            InvalidEnvelope, PayloadTooLarge, Closed: as `delegate`.
        """
        node, timeout = self._node or self.node, options.get("timeout")
        node.outgoing.check_may_wait()
        broker = self._broker
        inline = None if broker is None else broker.inline
        packed = pack(params, where="params", bounded=True)
        if (
            inline is None or options.keys() - {"timeout"} or not _is_plain(capability, to, timeout)
            or (capability, to) not in self._known or not inline.may_run()
        ):  # fmt: skip
            check_keywords(options, "ask")
            return self.delegate(capability, Payload(packed), to=to, **options).result()
        # Further conditions: `Supervisor.step_direct` has to take it, and `Cell.run_only` to find nothing else to do.
        seconds = None if timeout is None else float(timeout)
        handle = node.outgoing.delegate_plain(to, capability, packed, seconds, inline.send)
        node.resources.pool.run_inline(inline.step, lambda turn: node.agent_host.run_here(turn, handle.key))
        return handle.result()

    def map(
        self, capability: str, items: Iterable[Any], *, window: int = WINDOW, to: str | None = None,
        **options: Unpack[DelegateOptions],
    ) -> Mapped:  # fmt: skip
        """Delegate for each of many items, and give the outcomes in their order; see `Mapped`.

        Args:
            capability: as of `delegate`.
            items: the params of each delegation; taken as they are needed.
            window: delegations that are open at a time.
            to: as of `delegate`.
            options: the other keywords of `delegate`, for each; `timeout` is that of each.

        Raises:
            UsageError: `window` is no number above 0, `items` is a text or a dict or not iterable, or an option is of one
                delegation only.
            InvalidEnvelope: there is no such option.
            Closed: the runtime is not open.
        """
        check_each(options, "map", capability, to)
        check = self.node.outgoing.check_may_wait
        return Mapped(lambda params: self.delegate(capability, params, to=to, **options), items, window, check)

    def broadcast(
        self, capability: str, params: Any = None, *, most: int = _HOLDERS, **options: Unpack[DelegateOptions]
    ) -> dict[str, Handle]:
        """Delegate the same to every agent that holds a capability now; {agent: handle}.

        Each delegation ends by its own deadline, so all outcomes are there after `timeout` seconds. In an event loop it blocks
        until the bus has said who holds the capability.

        Args:
            capability: as of `delegate`; a prefix stands for those below it, and an agent that holds several gets one
                delegation. An agent that accepts any capability (`*`) is no holder.
            params: as of `delegate`.
            most: holders that there may be, as all delegations are open at once.
            options: the other keywords of `delegate`, for each.

        Raises:
            InvalidEnvelope, PayloadTooLarge, Closed: as `delegate`.
            UsageError: there are more holders than `most`, and nothing was delegated; `most` is no number above 0; or an option
                is of one delegation only.
            Rejected: the access list does not let this node ask who holds what (`administer: read`).
        """
        check_each(options, "broadcast", capability)
        packed = Payload(pack(params, where="params", bounded=True))
        if not is_count(most):
            raise UsageError(f"broadcast(most={most!r:.40}): most is a whole number above 0.")
        listed = islice(self._list("ether.capabilities", {"capability": capability}), min(most, sys.maxsize - 1) + 1)
        holders = [str(item["agent"]) for item in listed]
        if len(holders) > most:
            text = f"More than {most:,} agents hold {capability}, and a broadcast delegates to all at once: most= allows more."
            raise UsageError(f"{text} Nothing was delegated.")
        return {name: self.delegate(capability, packed, to=name, **options) for name in holders}

    def artifact(self, path: str | os.PathLike[str]) -> Artifact:
        """Seal a file of this machine as it is now, so that who gets it in an envelope can open it, on other machines too.

        Reads all of the file. Others read it from this runtime as long as it is open and the file is not changed. Whoever has
        the artifact can read the file: the specialist, whoever gets it from that, and all observers.

        Raises:
            OSError: it cannot be read, or is no regular file.
            UsageError: it is no path, or its name is no text that can travel.
            Closed: the runtime is not open.
        """
        return self.node.artifacts.offer(path)

    def publish(
        self, topic: str, data: Any = None, *, timeout: float | None = None, durability: Durability | None = None
    ) -> Handle:  # fmt: skip
        """Publish an event: each agent that subscribes to its topic now is given it once (`@on_event`).

        An agent subscribes as long as it is registered, also while it restarts or its node is lost; not while it drains.
        The event waits in its mailbox, as work does.

        Args:
            topic: words with dots between them, as in `orders.new`; up to 180 characters.
            data: of plain values, as the params of a delegation; 60 KiB packed at most, with 4,096 maps and lists.
            timeout: seconds that each subscriber has to handle it; None is 60. The publication itself has the bus's default.
            durability: as of `delegate`: with `memory` the event does not wait for the bus's journal.

        Returns:
            The handle of the publication, which ends as soon as the event is given to all. Its data says how many `subscribers`
            they are, and names those whose mailbox is full as `refused` (100 at most), of whom there is a dead
            letter. The publisher is not told what becomes of it with a subscriber; observers see it.

        Raises:
            InvalidEnvelope: it is no topic, or no timeout, or the data has more than 4,096 maps and lists.
            Unserialisable: the data is nothing that can be packed.
            PayloadTooLarge: it has more than 60 KiB.
            Closed: the runtime is not open.
        """
        return self.delegate(PUBLISH, publish_params(topic, data, timeout), durability=durability)

    def send(self, delegation: Delegation) -> Handle:
        """Send a delegation that was made elsewhere, as by a view; the runtime speaks as its delegator.

        Raises:
            PayloadTooLarge, InvalidEnvelope, Closed: as `delegate`.
        """
        node = self.node
        missing: dict[str, Any] = {}
        if delegation.from_agent != self._name:
            missing["from_agent"] = self._name
        if delegation.timestamp is None:
            missing["timestamp"] = node.resources.wall()
        if missing:
            delegation = delegation.model_copy(update=missing)
        return node.outgoing.send(delegation)

    def collect(self, request_ids: Iterable[str | UUID] = (), *, timeout: float = 10.0) -> list[Handle]:
        """Take up what an earlier life of this runtime's name had delegated: open, or ended without its knowing.

        A broker gives each outcome once, and with a journal again for a given request id. After a restart of the
        broker, the list may contain outcomes that this name has already received.

        Args:
            request_ids: of further delegations of this name, however long ago they ended.
            timeout: seconds to wait for the list.

        Returns:
            Handles: of the given ids in their order, then of open delegations, then of the other ended ones. Only those of open
                ones know their `capability`; of the others it is empty, and the request id says what was asked. A delegation
                that the bus does not know ends FAILED_EXECUTION `broker_lost`.

        Raises:
            InvalidEnvelope: a request id is no UUID.
            UsageError: `request_ids` is one id, and no list of ids.
            Rejected: the bus does not list them, such as with `journal_unavailable`.
            Closed: the runtime is not open.
        """
        if isinstance(request_ids, str | bytes) or not hasattr(request_ids, "__iter__"):
            raise UsageError(
                f"collect takes a list of request ids, as in bus.collect([request_id]); this is {request_ids!r:.80}."
            )
        ids = dict.fromkeys(id_bytes(str(request_id)) for request_id in request_ids)
        named = {request_id: position for position, request_id in enumerate(ids)}
        listed = self._list("ether.outcomes", timeout=timeout)
        found = {bytes(item["request_id"]): (str(item["capability"]), item["left"]) for item in listed}
        wanted = [(request_id, *said) for request_id, said in found.items()]  # what ends meanwhile is listed twice
        wanted += [(request_id, "", None) for request_id in named if request_id not in found]
        # the broker looks them up a few at a time, and in this order
        wanted.sort(key=lambda item: named.get(item[0], len(named) + (item[2] is None)))
        return self.node.outgoing.take_up(wanted)

    # -- watching ------------------------------------------------------------------------------------------------

    def observe(self, observer: _O, *, since: int = 0) -> _O:
        """Attach an observer; returns it.

        Args:
            observer: runs in a thread of its own until the runtime is closed, or `unobserve`.
            since: the number of the first message to receive; 0 starts with the next one.

        Raises:
            UsageError: it is not an observer, its `capabilities` are one text, it has `topics`, or `since` is negative or not a
                whole number; or a method `on_…` of it is none that the bus calls, is an `async def`, or takes something else;
                or the node has 64, or what its key has at the broker takes as much memory as it may.
            AccessDenied: the access list does not let this node observe.
            BrokerUnavailable: the broker did not answer within 10 s, for example because it restarted.
        """
        if not isinstance(observer, Observer):
            example = f"{observer.__name__}()" if isinstance(observer, type) else "Metrics()"
            msg = f"observe takes an object of an ether.Observer class, as in bus.observe({example}); this is {observer!r:.80}."
            raise UsageError(msg)
        name, capabilities = type(observer).__name__, observer.capabilities
        if isinstance(capabilities, str):
            raise UsageError(
                f"{name}.capabilities is the text {capabilities!r} and has to be a tuple of such: "
                f"capabilities = ({capabilities!r},)."
            )
        if hasattr(type(observer), "topics"):
            raise UsageError(
                f"{name}.topics: an observer names capabilities, as in capabilities = ('orders.',); the deliveries of an event "
                "have the capability 'ether.event.' and its topic."
            )
        check_hooks(observer)
        if not isinstance(since, int) or since < 0:
            msg = f"observe(since={since!r:.40}): since is a whole number: messages are numbered from 1; 0 is from now on."
            raise UsageError(msg)
        self.node.observers.observe(observer, since)
        return observer

    def unobserve(self, observer: Observer) -> None:
        """Detach an observer; what is under way to it is still handled."""
        self.node.observers.unobserve(observer)

    def settle(self, observer: Observer, timeout: float = 5.0) -> bool:
        """Wait until an observer has seen everything that has passed so far; False when the time was not enough."""
        number = int(self.statistics()["tap_next"])
        observing = self.node.observers.observing(observer)
        return observing is not None and observing.wait(number, timeout)

    def monitor(self, target: str) -> Monitor:
        """Be told once when an agent, or `node:NAME`, goes down (as OTP's `monitor`).

        Raises:
            UsageError: it is no name.
        """
        node = target.removeprefix("node:") if isinstance(target, str) else target
        check_agent_name("monitor", node)
        check_agent_name("monitor", target)  # with its prefix it has 200 letters too
        return self.node.monitors.monitor(target)

    def suggest(self, record: SuggestionRecord) -> None:
        """Make a gap in the capabilities known, with the agent that would fill it (spec 2 §8).

        Observers receive an event `suggestion`, and the journal stores it; the bus does nothing else with it. An agent
        uses `task.delegate("ether.suggest", record.document())`.

        Args:
            record: with `bus.name` as `submitted_by`, and a score of at least 0.55.

        Raises:
            Rejected: another agent is named as the submitter, or the score is too low.
        """
        from ether_broker.envelope.views.suggestion import SuggestionRecord

        if not isinstance(record, SuggestionRecord):
            raise UsageError(f"suggest takes an ether.views.SuggestionRecord, and this is a {type(record).__name__}.")
        self._tell("ether.suggest", record.document())

    # -- what the bus tells of itself ----------------------------------------------------------------------------

    def _tell(self, capability: str, params: dict[str, Any] | None = None, timeout: float = 10.0) -> Any:
        return self.delegate(capability, params or {}, timeout=timeout).answer(timeout + 5.0).unwrap().data

    def _list(
        self, capability: str, params: Mapping[str, Any] | None = None, timeout: float = 10.0
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        """The items of a list, whose pages are asked for as they are needed, each within `timeout` seconds."""
        asked = dict(params or {})
        while True:
            found = self._tell(capability, asked, timeout)
            yield from found["items"]
            asked["after"] = found["next"]
            if asked["after"] is None:
                return

    def agents(self) -> list[dict[str, Any]]:
        """Every agent on the bus that declares something, by name: a dict with `agent`, `node`, `condition` and more."""
        return list(self.iter_agents())

    def iter_agents(self, names: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """As `agents`, a page of some hundred at a time, for a bus that has many.

        Args:
            names: the agents to return, also those without capabilities; unknown names are left out.
        """
        if names is None:
            yield from self._list("ether.agents")
            return
        wanted = list(names)
        for first in range(0, len(wanted), _NAMES):
            yield from self._list("ether.agents", {"agents": wanted[first : first + _NAMES]})

    def manifests(self, agent: str | None = None) -> list[dict[str, Any]]:
        """Every agent's manifest, by name, or one's.

        Raises:
            UsageError: `agent` is no name.
        """
        if agent is not None:
            check_agent_name("manifests", agent)
        return list(self._list("ether.manifests", {} if agent is None else {"agent": agent}))

    def capabilities(self) -> dict[str, list[str]]:
        """{capability: names of its holders}."""
        holders: dict[str, list[str]] = {}
        for item in self._list("ether.capabilities"):
            for capability in item["capabilities"]:
                holders.setdefault(capability, []).append(item["agent"])
        return dict(sorted(holders.items()))

    def nodes(self) -> list[dict[str, Any]]:
        """Every node on the bus, by name."""
        return list(self._list("ether.nodes"))

    def leases(self) -> list[dict[str, Any]]:
        """Every lease that is held, the oldest first: resource, agent, node, delegation, token, who waits for it.

        For each lease, the first 100 waiting claims are listed; `more_wait` is true if there are more.
        """
        return list(self._list("ether.leases"))

    def statistics(self) -> dict[str, Any]:
        """Counts since the broker started: accepted, open, outcomes, dead letters, the tap's next number."""
        return self._tell("ether.statistics")  # type: ignore[no-any-return]

    def dead_letters(self, *, limit: int = 100, reason: str | None = None) -> list[DeadLetterView]:
        """The newest dead letters first.

        Raises:
            Rejected: there is no such reason.
        """
        found = self._list("ether.dead-letters", {"reason": reason})
        return [DeadLetterView(letter) for letter in islice(found, limit)]

    def dead_letter(self, number: int) -> DeadLetterView:
        """One dead letter, with its envelope.

        Raises:
            UnknownDeadLetter: there is none of that number any more.
        """

        def part(offset: int) -> Response:
            return self.delegate("ether.dead-letter", {"number": number, "offset": offset}).answer(15.0)

        return DeadLetterView.of(part)

    def states(self) -> list[dict[str, Any]]:
        """Every agent that has saved a state, by name, whether or not it is on the bus: agent, number, version, bytes."""
        return list(self._list("ether.states"))

    def forget_state(self, agent: str) -> bool:
        """Forget the state that an agent has saved, which is not on the bus now; whether it had one.

        Raises:
            Rejected: the agent is on the bus, or was on a node that is lost and may come back, or the access list does not
                allow it.
            UsageError: it is no name.
        """
        check_agent_name("forget_state", agent)
        return bool(self._tell("ether.forget-state", {"agent": agent})["forgotten"])

    def redrive(self, number: int, *, timeout: float | None = None) -> Handle:
        """Delegate the work of a dead letter again, under a new request id, and take the dead letter out.

        Raises:
            UnknownDeadLetter: there is none of that number any more.
            UsageError: it is a response, or work that was done in part; the message says which.
        """
        letter = self.dead_letter(number)
        handle = self.send(letter.again(self.node.resources.new_id(), timeout))
        self.delegate("ether.dead-letter", {"number": number, "discard": True}).answer(15.0)
        return handle


def _is_plain(capability: object, to: object, timeout: object) -> bool:
    """Whether these are of the right types, so that nothing but the names has to be checked."""
    is_duration = timeout is None or (type(timeout) in {float, int} and 0 < timeout <= LONGEST_TIMEOUT)  # type: ignore[operator]  # a number
    return is_duration and type(capability) is str and (to is None or type(to) is str)
