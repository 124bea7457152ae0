"""The registration of agents: one, or many of one manifest, which then travels and is kept once. Sans-IO."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ether_actors.supervisor.membership.departures import Departures
from ether_actors.supervisor.membership.reconnection import Reconnection
from ether_actors.supervisor.registry.quota import MOST_AT_A_TIME, check_agents, check_count, hold, let_go
from ether_actors.supervisor.registry.registration import Registration, places_of
from ether_actors.supervisor.state.broker_state import BrokerState
from ether_broker.encoding.bounded import MANIFEST, read_map
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.names import SUPERVISOR, is_name
from ether_broker.envelope.payload import pack
from ether_broker.errors import (
    AccessDenied,
    DuplicateAgent,
    EtherError,
    IncompatibleVersion,
    InvalidEnvelope,
    InvalidManifest,
    TooMuch,
)
from ether_broker.transport.sessions.cost import AGENT, CAPABILITY, MANIFEST_SHIFT
from ether_broker.transport.sessions.session import Session
from ether_broker.wire.frame import Header, Kind, name_of, pack_envelope

__all__ = ["Registering"]

_MOST_MANIFESTS: Final = 1_000
_MOST_BYTES: Final = 4 << 20
"""Bytes of the manifests that are kept for the next agent of their class; read, they take ten times as many."""


class Registering:
    """The part of the supervisor that takes REGISTER."""

    def __init__(
        self, state: BrokerState, reconnection: Reconnection, departures: Departures
    ) -> None:  # fmt: skip
        self._state = state
        self._reconnection = reconnection
        self._departures = departures
        self.listener: Callable[[Registration], None] = lambda _agent: None
        """Of the instances of agents that scale."""
        self._manifests: OrderedDict[bytes, Manifest] = OrderedDict()
        """{as it was packed: what was read lately}; the oldest makes room."""
        self._manifest_bytes = 0
        """Of those, packed."""

    def register(self, session: Session, header: Header, envelope: bytes) -> None:
        """Enter the agents of a REGISTER into the registry, all or none or those that may be, and tell their node which."""
        state = self._state
        state.ended.joined(session.incarnation, header.request_id)
        try:
            names, packed, scales, is_partial = _read(header, envelope)
            session.input.spend(AGENT * len(names))
            # who may not is told so before the manifest is read, which takes longest
            names, refused = self._permitted(session, names, is_partial=is_partial)
            if not names:
                self._refuse(session, header, *refused.values(), names=[*refused])
                return
            encoded = [name.encode(errors="replace") for name in names]
            check_agents(session, encoded, packed, state.registry.most // 2)
            manifest = self._manifest(session, names[0], packed)
            places = places_of(manifest, len(packed))
            if manifest.subscriptions:
                known_agents = [state.registry.get(name) for name in encoded]
                state.registry.subscriptions.check_room(session, known_agents, manifest)
            self._departures.remembered.check_room(session, encoded, places)
            session.input.spend(CAPABILITY * check_count(len(names), manifest.declared))
            are_free = [self._is_name_free(session, name) for name in encoded]
            if not all(are_free):
                session.input.block(envelope, lambda: not any(map(self._departures.is_waiting, encoded)))
                return
        except (
            AccessDenied, InvalidEnvelope, InvalidManifest, DuplicateAgent, IncompatibleVersion, TooMuch
        ) as error:  # fmt: skip
            self._refuse(session, header, error)
            return
        if refused:
            self._refuse(session, header, *refused.values(), names=[*refused])
        state.session_table.send_aside(
            session, pack_envelope(Kind.REGISTERED, request_id=header.request_id, target=header.source)
        )  # fmt: skip
        for name in names:
            said: dict[str, object] = {"manifest": packed} if name == names[0] else {"like": names[0]}
            if scales:
                said["scales"] = True
            known = state.registry.get(name.encode())
            self._departures.remembered.make_room(session, known, places)
            named = Manifest.trusted({**vars(manifest), "agent": name})
            self._enter(session, known, named, packed, said, scales=scales)

    def _refuse(
        self, session: Session, header: Header, error: EtherError, *others: EtherError, names: list[str] | None = None
    ) -> None:  # fmt: skip
        """Refuse a REGISTER, or these names of it, in one word that has the first reason."""
        table, message = self._state.session_table, str(error)
        table.refusals.note(session.node, error.code, error)
        if others:
            message = f"{message} {len(others)} more of its agents are refused too."
        said = {} if names is None else {"agents": names}
        body = pack({"code": error.code, "message": message, **said})
        table.send_aside(session, pack_envelope(Kind.ERROR, request_id=header.request_id, body=body))

    def _permitted(
        self, session: Session, names: list[str], *, is_partial: bool
    ) -> tuple[list[str], dict[str, EtherError]]:  # fmt: skip
        """The names that the node may host, and why not the others; raises for the first of those unless `is_partial`."""
        permitted, refused = list[str](), dict[str, EtherError]()
        for name in names:
            try:
                self._check(session, name)
            except (AccessDenied, DuplicateAgent) as error:
                if not is_partial:
                    raise
                refused[name] = error
            else:
                permitted.append(name)
        return permitted, refused

    def _enter(
        self, session: Session, known: Registration | None, manifest: Manifest, packed: bytes, said: dict[str, object],
        *, scales: bool,
    ) -> None:  # fmt: skip
        state, listener = self._state, self.listener if scales else None
        before = None if known is None else known.session
        is_changed = known is not None and (before is not session or known.packed != packed)
        if known is not None:
            let_go(known)
            if before is not session or not known.is_hosted:  # all its credit is back: nothing gives some back again
                state.ledger.forget_ended_at_node(known)
        agent = state.registry.register(manifest, session, len(packed), listener)
        if known is None:
            agent.since = state.now
            agent.is_from_before = session.has_resumed and state.is_young
        hold(agent, packed)
        state.event(
            "agent_up", agent=manifest.agent, node=session.node, version=manifest.version,
            incarnation=session.digest, **said,
        )  # fmt: skip
        again = self._reconnection.reclaim(agent, before)
        if known is not None:
            self._departures.returned(agent, again, is_changed=is_changed)
        if listener is not None:
            listener(agent)

    def _is_name_free(self, session: Session, name: bytes) -> bool:
        """Whether nothing of a former holder's work has to be ruled on before a node takes the name."""
        known = self._state.registry.get(name)
        if known is None:
            return True
        if known.is_hosted and self._reconnection.is_another_life(known.session, session):
            self._departures.lost_alone(known, "its node was restarted")
        return self._departures.finish_work(known)

    def _check(self, session: Session, name: str) -> None:
        """Raise for a name that is none, is the bus's own, is taken, or that the node may not host."""
        if not is_name(name.encode()):
            Manifest.parse({"agent": name})
        if name == SUPERVISOR or name.startswith("node:"):
            raise InvalidManifest(f"The name {name!r} is the bus's own: choose another.")
        if not self._state.access.may_register(session.node, name):
            raise AccessDenied(f"The node {session.node!r} may not host {name!r}: the access list does not have it.")
        self._state.registry.check_free(name, session)

    def _manifest(self, session: Session, name: str, packed: bytes) -> Manifest:
        """The manifest under that name; agents of one class send the same bytes, which are read, and charged, once."""
        known = self._manifests.get(packed)
        if known is None:
            session.input.spend(len(packed) >> MANIFEST_SHIFT)
            known = Manifest.parse_without_schemas({**read_map(packed, MANIFEST), "agent": name})
            session.input.spend(CAPABILITY * known.declared)
            self._manifests[packed] = known
            self._manifest_bytes += len(packed)
            while len(self._manifests) > _MOST_MANIFESTS or self._manifest_bytes > _MOST_BYTES:
                self._manifest_bytes -= len(self._manifests.popitem(last=False)[0])
        return known


def _read(header: Header, envelope: bytes) -> tuple[list[str], bytes, bool, bool]:
    """The names of a REGISTER's agents, their manifest as it was packed, and two marks.

    The marks: whether they are instances of an agent that scales; whether those are to be taken that may be.
    """
    packed = envelope[header.body :]
    body = {} if header.source else read_map(packed, MANIFEST)
    if "agents" not in body:
        return [name_of(header.source)], packed, False, False
    names, manifest = body.get("agents"), body.get("manifest")
    if (
        not isinstance(names, list) or not 0 < len(names) <= MOST_AT_A_TIME or not isinstance(manifest, bytes)
        or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names)
    ):  # fmt: skip
        msg = f"REGISTER of several: agents is a list of 1 to {MOST_AT_A_TIME} names, and manifest one packed manifest."
        raise InvalidEnvelope(msg)
    return names, manifest, body.get("scales") is True, body.get("partial") is True
