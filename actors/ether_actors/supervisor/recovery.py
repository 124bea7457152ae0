"""The recovery of a broker: the history of its journal becomes the supervisor's state.

Whatever was accepted and has no outcome goes on. What had been given to a node counts as held by it until the node is back
and says what it holds, or has not come back in time (`Membership.expect`); so nothing runs twice that must not (G3).
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Final

from ether_actors.supervisor.capabilities.administration import Administration
from ether_actors.supervisor.capabilities.lease_service import LeaseService
from ether_actors.supervisor.journal.history import Accepted, History
from ether_actors.supervisor.membership.departures import MOVES, NOT_TAKEN
from ether_actors.supervisor.membership.membership import Membership
from ether_actors.supervisor.registry.registration import Choice, Condition, Registration
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ended import REMEMBERED
from ether_actors.supervisor.state.lease_table import Held
from ether_actors.supervisor.state.ledger import Entry, Ledger, State
from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.manifest.manifest import Capability, Manifest
from ether_broker.envelope.payload import unpack
from ether_broker.envelope.response import ErrorInfo
from ether_broker.envelope.status import Status
from ether_broker.journal.journal import Journal
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Flag, mark, name_of, read_header, rehead

__all__ = ["read_history", "recover"]

_RESTARTED: Final = "the broker was restarted"


def read_history(journal: Journal, *, remembered: int = REMEMBERED) -> History:
    """Everything that a journal tells.

    Args:
        journal: of the broker before this one, or of this one.
        remembered: as of `Ended`.

    Raises:
        JournalCorrupt: it is not what a broker wrote.
    """
    checkpoint = journal.checkpoint
    history = History(remembered=remembered) if checkpoint is None else History.of(checkpoint[1], remembered=remembered)
    for step in journal.replay():
        history.apply(*step)
    return history


def recover(
    state: BrokerState, membership: Membership, administration: Administration, lease_service: LeaseService, history: History
) -> None:  # fmt: skip
    """Fill an empty state with what a history says, by whose clock `state.now` is.

    Raises:
        InvalidManifest, InvalidEnvelope: an agent's manifest is not what a broker writes.
    """
    nodes: dict[bytes, Session] = {}
    kept, leaving = _restore_agents(state, membership, nodes, history)
    works: dict[bytes, list[Entry]] = {}
    turns: Counter[tuple[bytes, int]] = Counter()
    """How many of each agent's delegations of a priority, from the oldest on, were never reassigned."""
    questions: list[Entry] = []
    gone = Session("", b"", state.now, lost=_RESTARTED)
    history.ended.restarted()
    state.ids_ahead.count(chain(history.open, history.ended.ids()), state.wall)
    state.agent_states = history.states
    state.ended = history.ended  # first: what cannot go on is ended here
    for accepted in history.open.values():
        entry = _restore_work(state, accepted, history, nodes, gone)
        if entry is not None and entry.agent is state.bus:
            state.ledger.open(entry)
            questions.append(entry)
        elif entry is not None:
            window: int | None = max(history.window, accepted.window)
            present = history.agents.get(entry.agent.manifest.agent)
            if present is not None and present.leaving in {MOVES, NOT_TAKEN}:
                window = None
            elif present is not None and present.scales and not present.was_another:
                window = min(max(history.window, accepted.window), entry.agent.manifest.max_concurrency)
            _place(state.ledger, entry, accepted, turns, window)
            if entry.holds_credit:
                works.setdefault(entry.agent.name, []).append(entry)
    _restore_leases(state, lease_service, history)
    for entry in questions:
        administration.do(entry)
    membership.expect(list(nodes.values()), works, kept, leaving, history.longest_silence)


def _restore_leases(state: BrokerState, lease_service: LeaseService, history: History) -> None:
    """Enter the leases whose holders may still be at work; the others have ended with their holders."""
    for resource, (agent_name, holder, token) in history.leases.items():
        entry = state.ledger.get(holder)
        if entry is not None and entry.holds_credit:
            account = entry.agent.session.account
            state.leases.restore(resource, agent_name, holder, token, since=state.now, account=account)
        else:
            held = Held(resource, agent_name, holder, token, state.now)
            lease_service.tell_released(held, "ended" if entry is None else "redelivered")
    if history.token:
        state.leases.begin_above(history.token)


def _restore_agents(
    state: BrokerState, membership: Membership, nodes: dict[bytes, Session], history: History
) -> tuple[list[Registration], dict[Registration, str]]:
    """Enter the agents, and their sessions into `nodes`; returns those whose node had been lost, and those that leave."""
    kept: list[Registration] = []
    leaving: dict[Registration, str] = {}
    reasons = history.leaving()
    manifests: dict[bytes, Manifest] = {}
    for name, agent in history.agents.items():
        session = nodes.get(agent.incarnation)
        if session is None:
            session = nodes[agent.incarnation] = Session(
                agent.node, b"", state.now, lost=_RESTARTED, digest=agent.incarnation,
                account=state.session_table.account(agent.node),
            )  # fmt: skip
        manifest = manifests.get(agent.manifest)
        if manifest is None:  # agents of one class have the same
            manifest = Manifest.parse_without_schemas({**unpack(agent.manifest), "agent": name})
            manifests[agent.manifest] = manifest
        condition = Condition.RESTARTING
        if agent.is_down:
            condition = Condition.MOVING if agent.moves else Condition.DOWN
        own = manifest.model_copy(update={"agent": name})
        listener = membership.registering.listener if agent.scales else None
        registration = state.registry.restore(own, session, condition, len(agent.manifest), listener)
        registration.is_from_before = True
        if agent.is_down:
            session.agents.pop(registration.name, None)
            kept.append(registration)
        elif name in reasons:
            leaving[registration] = reasons[name]
    for session in nodes.values():
        session.is_expected = bool(session.agents)
    return kept, leaving


def _restore_work(
    state: BrokerState, accepted: Accepted, history: History, nodes: dict[bytes, Session], gone: Session
) -> Entry | None:  # fmt: skip
    header = read_header(accepted.envelope)
    source = history.agents.get(header.source.decode(errors="replace"))
    delegator = gone if source is None else nodes.get(source.incarnation, gone)
    if accepted.asked_from is not None:
        delegator = nodes.get(accepted.asked_from[1], delegator)
    account = None
    if header.source == state.bus.name:  # it delivers an event
        delegator = state.bus.session
        publisher = history.agents.get(_publisher(accepted.envelope, header.body))
        account = None if publisher is None else state.session_table.account(publisher.node, of_events=True)
    agent = state.bus if header.target == state.bus.name else state.registry.get(accepted.agent or header.target)
    capability = accepted.capability or header.capability
    choice = None if agent is None else state.registry.resolve(agent, capability)
    if agent is not None and agent is not state.bus and (choice is None or choice.name != capability):
        # It came back without this capability, and what it had been given before goes on; nobody says that it may run twice.
        declared = Capability.model_construct(name=name_of(capability))
        choice = Choice(agent, declared, capability, idempotent=False, tier=0)
    if agent is None or choice is None:  # no broker leaves it so, but whoever asked must not wait for ever
        message = f"{header.target.decode(errors='replace')} is not there any more."
        error = ErrorInfo(code="agent_gone", message=message, retryable=True)
        state.answer(
            delegator, accepted.envelope, Status.REJECTED_CAPABILITY, error, Flag.NONE, asked_from=accepted.asked_from
        )
        return None
    parent = state.ledger.get(header.parent)
    if header.parent != NO_ID and parent is None and agent is not state.bus:
        error = ErrorInfo(code="parent_ended", message="The delegation that it was made for has ended.")
        state.answer(delegator, accepted.envelope, Status.CANCELLED, error, Flag.NONE, asked_from=accepted.asked_from)
        return None
    flags = header.flags | (Flag.REDELIVERED if accepted.attempt > header.attempt else 0)
    envelope = rehead(
        header, accepted.envelope, target=agent.name, capability=choice.name, attempt=accepted.attempt,
        flags=flags,
    )  # fmt: skip
    entry = Entry(
        read_header(envelope), envelope, delegator, choice, parent=parent,
        account=account, pinned=not header.flags & (Flag.ROUTED | Flag.FALLTHROUGH), deadline=header.deadline,
        now=accepted.clock,
    )  # fmt: skip
    entry.returns, entry.asked_from = accepted.returns, accepted.asked_from
    return entry


def _publisher(envelope: bytes, body: int) -> str:
    """The name of the agent that published the event that a delivery has; "" if it does not say so."""
    params = unpack(unpack(envelope[body:])["params"])
    return str(params.get("publisher", "")) if isinstance(params, dict) else ""


def _place(
    ledger: Ledger, entry: Entry, accepted: Accepted, turns: Counter[tuple[bytes, int]], window: int | None
) -> None:
    """Put an entry where it was: with its node, if it may have been sent there; else into the mailbox.

    Each priority of a mailbox is emptied in order and only as far as there is credit. So what was never reassigned, and is
    behind the first `window` of those of its priority, was not sent; unless it is volatile, and left before the end that gave
    it its credit was in the journal. The window is the largest of the brokers that may have sent it; of
    an instance that scales, the places that it has. It is None of one that moves: its node has said what it had.
    """
    ledger.open(entry)
    mailbox = entry.agent.mailbox
    turn = entry.agent.name, entry.priority
    if not accepted.agent:
        turns[turn] += 1
    may_be_sent = window is not None and (bool(accepted.agent) or entry.is_volatile or turns[turn] <= window)
    if not entry.agent.is_hosted or not (accepted.is_running or may_be_sent):
        if entry.is_volatile:  # a node that had taken the name may have been given it before the journal had that
            entry.envelope = mark(entry.envelope, Flag.RESENT)
        mailbox.restore(entry)
        return
    mailbox.take_credit()
    entry.holds_credit = True
    ledger.advance(entry, State.SENT)
    if accepted.is_running:
        ledger.advance(entry, State.RUNNING)
