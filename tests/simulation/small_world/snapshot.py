"""What tells two states of a small world apart: everything that decides what can happen, and nothing that does not.

Left out: counts for people, numbers of frames and of the journal, ids of events, dead letters, hints of load, and in which
order nodes and agents came.
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ether_broker.envelope.ids import to_text
from ether_broker.journal.journal import Replayed
from ether_broker.wire.frame import Kind, read_frame
from tests.simulation.small_world.peer import request_id

if TYPE_CHECKING:
    from ether_actors.supervisor.registry.registration import Registration
    from ether_actors.supervisor.state.ledger import Entry
    from ether_broker.transport.channel import Channel
    from ether_broker.transport.sessions.session import Session
    from tests.simulation.small_world.peer import Peer
    from tests.simulation.small_world.world import World

__all__ = ["digest"]

_OF_PEERS: Final = frozenset({int(Kind.DELEGATION), int(Kind.RESPONSE), int(Kind.CANCEL)})
_OF_THE_BROKER: Final = frozenset({int(Kind.RESPONSE)})
"""Kinds of what each keeps of a session that is over; the rest is said again."""
_SECOND, _THIRD = request_id(2), request_id(3)
_SWAPPED: Final = {
    _SECOND: _THIRD, _THIRD: _SECOND,
    to_text(_SECOND).encode(): to_text(_THIRD).encode(), to_text(_THIRD).encode(): to_text(_SECOND).encode(),
}  # fmt: skip
_EITHER: Final = re.compile(b"|".join(map(re.escape, _SWAPPED)))


def digest(world: World) -> bytes:
    """The same for two states that are the same, but for the names of delegations that are alike."""
    shared, own = _shared(world), [_own(world, number) for number in range(1, len(world.relation.parents) + 1)]
    text = _bytes((shared, own))
    if _are_alike(world):
        other = _bytes((shared, [own[0], own[2], own[1]]))
        text = min(text, _EITHER.sub(lambda found: _SWAPPED[found[0]], other))
    return hashlib.blake2b(text, digest_size=16).digest()


def _are_alike(world: World) -> bool:
    """Whether the second and the third delegation differ in nothing but their ids."""
    relation = world.relation
    return len(relation.parents) == 3 and all(
        values[1] == values[2] for values in (relation.parents, relation.capabilities, relation.routes)
    )  # fmt: skip


def _bytes(value: Any) -> bytes:
    return marshal.dumps(value, 2)  # without references, so that equal values have equal bytes


def _own(world: World, number: int) -> tuple[Any, ...]:
    """What is known of one delegation, wherever."""
    request, supervisor = request_id(number), world.supervisor
    at_peers = [
        (peer.heard.get(number), number in peer.wanted, peer.works.get(number), tuple(peer.given.get(number, ())))
        for peer in world.peers.values()
    ]
    if supervisor is None:
        return world.said.get(number), at_peers
    state = supervisor.state
    held = next(
        (agent.ended_at_node[request] for agent in state.registry.agents if request in agent.ended_at_node), None
    )
    ending = state.ended.get(request)
    return (
        world.said.get(number), at_peers,
        None if ending is None else (ending.by, ending.source, ending.asked_from), request in state.ended.uncollected,
        None if held is None else (held.agent.name, held.attempt),
        bool(world.journal.outcome(request)),
    )  # fmt: skip


def _shared(world: World) -> tuple[Any, ...]:
    journal = world.journal
    waiting = [item.envelopes if isinstance(item, Replayed) else item for item in journal.waiting]
    return (
        round(world.now, 3), world.may_be_resent, sorted(world.spent.items()),
        [_peer(world, peer) for peer in world.peers.values()],
        None if world.supervisor is None else _supervisor(world), waiting, journal.trouble is None, _history(world),
    )  # fmt: skip


def _history(world: World) -> tuple[Any, ...]:
    """What a broker that is started now would know."""
    if world.supervisor is not None and not world.may_be_resent:
        return ()
    history = world.journal.durable
    return (
        [
            (work.envelope, round(work.clock, 3), work.agent, work.attempt, work.is_running, work.asked_from)
            for work in history.open.values()
        ],
        [(name, agent.incarnation, agent.is_down) for name, agent in history.agents.items()],
        history.ended.pack()["uncollected"],
    )


def _kept(channel: Channel, kinds: frozenset[int]) -> list[tuple[int, bytes]]:
    """(number of its frame, envelope) of what an end still keeps, of the kinds that mean anything to a later session."""
    frames = ((number, read_frame(frame).envelopes) for number, frame, _ in channel._retained)
    return [(number, envelope) for number, envelopes in frames for envelope in envelopes if envelope[0] in kinds]


def _channel(world: World, channel: Channel, kinds: frozenset[int]) -> list[bytes]:
    return [envelope for _, envelope in _kept(channel, kinds)] if world.may_be_resent else []


def _frames(world: World, frames: Iterable[bytes], other: Channel, kinds: frozenset[int]) -> list[Any]:
    """Frames on a wire: what is in them, and how much of what the other end keeps they leave."""
    read = list(map(read_frame, frames))
    if not read or not world.may_be_resent:
        return [frame.envelopes for frame in read]
    kept = _kept(other, kinds)
    return [
        (frame.envelopes, bool(frame.number), sum(number > frame.acknowledged for number, _ in kept)) for frame in read
    ]


def _peer(world: World, peer: Peer) -> tuple[Any, ...]:
    session = None if world.supervisor is None else world.supervisor.state.session_table.by_address.get(peer.receiver)
    far = peer.channel if session is None else session.channel
    return (
        peer.life, peer.is_dead, peer.is_in, peer.is_greeting, peer.broker, peer.channel.session,
        _channel(world, peer.channel, _OF_PEERS), _frames(world, (frame for _, frame in peer.up), far, _OF_THE_BROKER),
        _frames(world, peer.down, peer.channel, _OF_PEERS),
        list(peer.works), list(peer.wanted),
    )  # fmt: skip


def _session(world: World, session: Session) -> tuple[Any, ...]:
    return (
        session.incarnation or session.digest, session.lost, session.is_expected, session.was_told_bye,
        _channel(world, session.channel, _OF_THE_BROKER), list(session.outbox), session.fresh, session.gone_since is None,
        sorted(session.agents), sorted((name, sorted(held.items())) for name, held in session.holding.items()),
    )  # fmt: skip


def _node_of(session: Session) -> tuple[str, bytes]:
    return session.node, session.incarnation or session.digest


def _name_of(agent: Registration) -> bytes:
    return agent.name


def _entry(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.envelope, int(entry.state), entry.attempt, entry.agent.name, entry.holds_credit,
        round(entry.deadline, 3), entry.asking_session.digest, bool(entry.asking_session.lost), entry.asked_from,
        _children(entry),
    )  # fmt: skip


def _children(entry: Entry) -> list[bytes]:
    return [child.request_id for child in entry.children or ()]


def _supervisor(world: World) -> tuple[Any, ...]:
    supervisor = world.supervisor
    state = supervisor.state
    reconnection = supervisor._membership._reconnection
    return (
        [_session(world, session) for session in sorted(state.session_table.sessions, key=_node_of)],
        [
            [(session.incarnation, envelopes) for session, (envelopes, _) in waiting.items()]
            for _, waiting, _ in state.session_table._ended_steps
        ],
        [
            (agent.name, agent.condition.value, _session(world, agent.session), agent.mailbox.in_flight,
             [entry.request_id for entry in agent.mailbox._waiting if not entry.is_over])
            for agent in sorted(state.registry.agents, key=_name_of)
        ],
        [_entry(entry) for entry in state.ledger.running],
        sorted(reconnection._expected),
        sorted((name, [work.request_id for work in works]) for name, works in reconnection._unclaimed.items()),
        [(session.incarnation, list(waiting)) for session, waiting in supervisor._replay.asked.items()],
        -1.0 if reconnection._until is None else round(max(0.0, reconnection._until - world.now), 3),
        sorted(
            (key, round(max(0.0, node.until - world.now), 3))
            for key, node in reconnection._expected.items() if node.until is not None
        ),
    )  # fmt: skip
