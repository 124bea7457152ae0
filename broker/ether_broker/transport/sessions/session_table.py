"""The broker's routing: which peer is which node, what waits for it, and whether it still lives. Sans-IO.

A peer is known by its address, which the transport gives with each message and takes with each frame; whose it is the transport
says. A node has one on which it listens and says HELLO, and one on which it talks, which may be the same.

    shell                       SessionTable                      supervisor
      |-- arrive(addr., frame) -->| waits; turns: (queue, envelope) -->| rules on them
      |                           |<-------- send(session, envelope) --|
      |                           |<-------- end_step(ticket) ---------| the step ends; its journal entry has this ticket
      |<- outgoing() frames ------|<-------- release(ticket) ----------| the journal has committed it
      |-- unreachable(addr.) ---->| lost sessions: expire() ---------->| ends their work

What a step sends, and the acknowledgement of what caused it, leave when the journal has committed the step (G2);
while it cannot be written, several steps leave together, with the last of them.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from ether_broker.envelope.ids import NO_ID
from ether_broker.envelope.payload import pack
from ether_broker.errors import EtherError, NameTaken, NodeRefused
from ether_broker.sorted_keys import SortedKeys
from ether_broker.text import printable
from ether_broker.timing import DEFAULT_TIMING, Timing
from ether_broker.transport.address import Address, Addressing, two_connections
from ether_broker.transport.channel import JOINED, PARTS, UNTOLD, Channel, Framing
from ether_broker.transport.refusal_log import RefusalLog
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.admission_control import AdmissionControl
from ether_broker.transport.sessions.backlog import GRAIN, MOST_BACKLOG_BYTES, Backlog
from ether_broker.transport.sessions.cost import REFUSAL
from ether_broker.transport.sessions.session import Session
from ether_broker.transport.sessions.turns import FRAME_OVERHEAD, MOST_WAITING, InputQueue, Turns
from ether_broker.wire.frame import (
    PREAMBLE,
    Frame,
    Kind,
    Message,
    join_frame,
    pack_envelope,
    read_frame,
    read_header,
    read_number,
    read_preamble,
)

__all__ = ["SessionTable"]

_MOST_SAID: Final = 1_000
"""Characters of a refusal that a peer is told."""
_MOST_ERRORS: Final = 1_000
"""Refusals that wait to leave, of all peers."""
_JOINED_SHIFT: Final = 2
"""While the journal cannot be written, a quarter as many steps leave together as groups of them wait."""
_MOST_ENDED_STEPS: Final = 256
"""Groups of steps that wait then; what follows joins the last."""
_FEW_ACCOUNTS: Final = 1_024
"""Accounts that are always kept."""


class SessionTable:
    """The table of the nodes' sessions, and of what waits for each.

    Args:
        timing: which all of its nodes keep. Without a `patience` a node is lost with its connection.
        make_session: draws the ids of sessions, so that a frame of an earlier one is known as such.
        refusals: counts what is refused; shared with whoever refuses before it comes here.
        owner: the key of the connection of an address; "" where there are no keys.
        most_kept: bytes that may wait for nodes, or for their acknowledgement, in all; see `Backlog`.
        addressing: the transport's.
    """

    def __init__(
        self, *, timing: Timing = DEFAULT_TIMING, make_session: Callable[[], int] = lambda: _random(8),
        refusals: RefusalLog | None = None, owner: Callable[[Address], str] = lambda _address: "",
        most_kept: int = MOST_BACKLOG_BYTES, addressing: Addressing = two_connections,
    ) -> None:  # fmt: skip
        self.refusals: RefusalLog = refusals or RefusalLog()
        """Messages that were no frames, came from peers without a session, or were not allowed."""
        self.timing: Timing = timing
        """WELCOME tells each node."""
        self._patience = timing.patience or 0.0
        self._make_session = make_session
        self._node_of = addressing
        self.by_address: dict[Address, Session] = {}
        """{where it listens, and where it talks: the session}, of nodes that are in."""
        self._names: dict[str, Session] = {}
        self._order: SortedKeys[str] = SortedKeys()
        self._ready: dict[Address, Session] = {}
        self.touched: dict[Address, Session] = {}
        """Those that this step sends something, or of which it has handled something."""
        self._ended_steps: deque[tuple[int, dict[Session, tuple[list[bytes], int]], int]] = deque()
        """(last ticket, {session: what it is sent, the last frame that it is told was committed}, first ticket)."""
        self._gone: list[Session] = []
        self.lost: list[Session] = []
        """Those that were lost since the last `expire`."""
        self.on_lost: Callable[[], None] = lambda: None
        """Told when a session is lost."""
        self._admission = AdmissionControl(owner)
        self._accounts: dict[tuple[str, bool], Account] = {}
        """{(key, or node where there are no keys; whether of its events): account}; some of them of nobody who is in."""
        self._most_accounts = _FEW_ACCOUNTS
        """How many there may be before the others are left out."""
        self.backlog: Backlog = Backlog(most_kept, self.close)
        """What is kept for them."""
        self.turns: Turns[Session] = Turns(self._open_other)
        """What waits to be handled."""
        self._errors: OrderedDict[tuple[Address, str, bytes], bytes] = OrderedDict()
        """{(address, code, request id): what it is told}, of which the oldest make room: nobody has a right to them."""
        self._asides: deque[tuple[Address, Message]] = deque()
        """Welcomes, acknowledgements, and what is missing; a few for each session."""
        self._now = 0.0
        self._lenient_until = 0.0
        """Until when nobody is lost, because this very process stood still and has not read what came meanwhile."""

    @property
    def refused(self) -> int:
        """How many messages were refused."""
        return self.refusals.total

    @property
    def sessions(self) -> list[Session]:
        """The nodes that are in, in the order in which they came."""
        return list(self._names.values())

    def find(self, node: str) -> Session | None:
        """The session of the node of that name, if it is in."""
        return self._names.get(node)

    def after(self, node: str | None) -> Iterator[str]:
        """The names of the nodes that are in, above one, in order; all of them after None."""
        return self._order.after(node)

    # -- what comes ----------------------------------------------------------------------------------------------

    def arrive(self, address: Address, message: Message, now: float) -> None:  # noqa: C901  no call for each frame
        """Let a message wait for its turn, and take note at once that its peer lives and of what it acknowledges.

        Duplicates, frames out of order and frames without room are dropped; what is not acknowledged is sent again.
        `turns` gives what waits; of a peer without a session it gives the first envelope.
        """
        self._now = now
        session = self.by_address.get(address)
        queue = self._admission.strangers(address) if session is None else session.input
        of_session = number = acknowledged = 0
        is_frame = True
        if isinstance(message, Frame):
            of_session, number, acknowledged, envelopes = message
            size = sum(map(len, envelopes))
        else:
            try:
                of_session, number, acknowledged = read_preamble(message)
            except EtherError:
                is_frame, message = (
                    False,
                    message[: PREAMBLE.size],
                )  # which says what is wrong with it when its turn comes
            size = len(message)
        if is_frame and session is not None:
            channel = session.channel
            if of_session == channel.session and session.gone_since is None and acknowledged <= channel.last:
                session.heard = now
                channel.acknowledge(acknowledged)
                if session.counted:
                    self.backlog.acknowledged(session, session.outbox_bytes + channel.retained_bytes)
            elif not self._is_heard(session, of_session, number, acknowledged):
                return
        if queue.size + size + FRAME_OVERHEAD > queue.limit:
            self.refusals.note(session.node if session else "", "input_full", f"{queue.size:,} bytes wait already")
            return
        if session is not None and number:
            channel = session.channel
            if number != channel.received + 1:
                if channel.misses(number, now):
                    self._asides.append((session.receiver, channel.ask()))
                return
            channel.received = number
        self.turns.put(queue, address, number, message, size)
        if self.turns.size > MOST_WAITING:
            self._shed()

    def _shed(self) -> None:
        """Let the longest queues lose what came last until no more waits than may; what is numbered comes again."""
        while (shed := self.turns.shed()) is not None:
            longest, first = shed[0].session, shed[1]
            self.refusals.note(longest.node if longest else "", "input_full", "more waits in all than may")
            if longest is not None and first is None:
                self.close(longest, "it has sent the most of all that waits, and its queue is blocked")
            elif longest is not None and first:
                longest.channel.received = first - 1

    def _is_heard(self, session: Session, of_session: int, number: int, acknowledged: int) -> bool:
        """Whether a frame is of this session: then it is a sign of life, and what it acknowledges counts."""
        channel = session.channel
        if of_session != channel.session and (of_session or number):
            return False  # of an earlier one; what it acknowledges is not ours
        if of_session or not channel.received:  # a node that says HELLO in a session that has begun does not hear us
            session.heard = self._now
        if session.gone_since is not None:
            session.gone_since = None
            self.resend(session)
        if of_session:
            if acknowledged > channel.last:
                self.refusals.note(session.node, "forged_acknowledgement", f"frame {acknowledged} was never sent")
            channel.acknowledge(acknowledged)
            if session.counted:
                self.backlog.acknowledged(session, session.outbox_bytes + channel.retained_bytes)
        return True

    def _open_other(self, queue: InputQueue[Session], address: Address, message: Message) -> list[bytes]:
        """The first envelope of a peer without a session, when its turn comes; a message that is no frame is refused."""
        if queue.session is None and address in self.by_address:
            self.arrive(address, message, self._now)  # it has been let in meanwhile
            return []
        try:
            return read_frame(message).envelopes[:1]
        except EtherError as error:
            self.refuse(address, error)
            return []

    def refuse(self, address: Address, error: EtherError, request_id: bytes = NO_ID) -> None:
        """Count a message that cannot be taken and tell the peer why, if it listens.

        Only one refusal for each code and request id (or without one) waits to be sent.
        """
        session = self.by_address.get(address)
        self.refusals.note(session.node if session else "", error.code, error)
        node = self._node_of(address)
        receiver = address if node is None else node.listens  # one that talks is told where it listens
        key = receiver, error.code, request_id
        if key in self._errors:
            return
        (self._admission.strangers(address) if session is None else session.input).spend(REFUSAL)
        body = pack({"code": error.code, "message": printable(error, _MOST_SAID)})
        self._errors[key] = join_frame([pack_envelope(Kind.ERROR, request_id=request_id, body=body)])
        if len(self._errors) > _MOST_ERRORS:
            self._errors.popitem(last=False)

    def open(self, address: Address, node: str, info: dict[str, object], now: float) -> Session:
        """Let a node in.

        Raises:
            NodeRefused: the name is taken (NameTaken), there are too many nodes, or no node listens there.
        """
        self._now = now
        of_node = self._node_of(address)
        if of_node is None or of_node.listens != address:
            msg = f"HELLO came from the address {address[:32]!r}, where no node listens: see Connection in docs/protocol.md."
            raise NodeRefused(msg)
        incarnation, receiver, talks, is_joined = of_node
        known = self.by_address.get(address)
        if known is not None:
            return known
        same = self._names.get(node)
        if same is not None and same.has_said_bye:
            self.close(same, "it left")
        elif same is not None:
            raise NameTaken(
                f"A node named {node!r} is in already: choose another name. If it is this one before its restart, it is let "
                "in when its end has been noticed."
            )
        owner = self._admission.enter(address)
        framing: Framing[Any] = JOINED if is_joined else PARTS
        channel = Channel(self._make_session(), self.timing.max_backoff, framing=framing)
        session = Session(
            node, incarnation, now, info, channel=channel, owner=owner, account=self._account_of(owner, node),
            receiver=receiver, talks=talks,
        )  # fmt: skip
        self.by_address[receiver] = self.by_address[talks] = session
        self._names[node] = session
        self._order.add(node)
        return session

    def account(self, owner: str, *, of_events: bool = False) -> Account:
        """The account of a key, or of a node where there are no keys: that of its delegations, or that of its events."""
        return self._accounts.setdefault((owner, of_events), Account())

    def _account_of(self, owner: str, node: str) -> Account:
        """The account of a node that comes; what a broker before this one kept for the node is its key's from now on."""
        if len(self._accounts) >= self._most_accounts:
            of_sessions = {session.account for session in self._names.values()}
            kept = {key: one for key, one in self._accounts.items() if one.is_used or one in of_sessions}
            self._accounts = kept
            self._most_accounts = 2 * len(self._accounts) + _FEW_ACCOUNTS
        if owner and owner != node:
            for of_events in (False, True):
                before = self._accounts.pop((node, of_events), None)
                if before is not None:
                    before.into = account = self.account(owner, of_events=of_events)
                    account.size += before.size
                    account.kept += before.kept
        return self.account(owner or node)

    def reply(self, address: Address, envelope: bytes) -> None:
        """Answer HELLO: outside the count, as the peer does not know its session yet."""
        self._asides.append((address, join_frame([envelope])))

    def close(self, session: Session, reason: str) -> None:
        """Forget a node; it is among the next `expire()` unless it has been forgotten before."""
        if session.lost:
            return
        session.lost = reason
        session.holding.clear()
        self._admission.leave(session.owner)
        self.backlog.count(session, 0)
        for key in (session.receiver, session.talks):
            self.by_address.pop(key, None)
        if self._names.pop(session.node, None) is not None:
            self._order.remove(session.node)
        self._ready.pop(session.receiver, None)
        self.turns.clear(session.input)
        self.lost.append(session)
        self.on_lost()

    def resend(self, session: Session) -> None:
        """Send again what a node has not acknowledged, unless it asks too often; see `Channel.may_rewind`."""
        if not session.channel.may_rewind(self._now):
            return
        session.channel.rewind()
        self._ready[session.receiver] = session

    # -- what goes -----------------------------------------------------------------------------------------------

    def send(self, session: Session, envelope: bytes) -> None:
        """Send an envelope when this step is in the journal; what is sent to a lost node is dropped. `FastPath` does so too."""
        if session.lost:
            return
        fresh = session.fresh
        if not fresh:
            self.touched[session.receiver] = session
        fresh.append(envelope)
        session.outbox_bytes += len(envelope)

    def beat(self, now: float, trouble: str = "") -> None:
        """Show life to every node that stays, whatever the journal does, and say what is wrong with that (protocol.md)."""
        for session in self._names.values():
            if not session.was_told_bye and session.gone_since is None:
                self._asides.append((session.receiver, session.channel.heartbeat(now, trouble)))

    def send_aside(self, session: Session, envelope: bytes) -> None:
        """Send an envelope that does not wait for the journal."""
        if session.lost:
            return
        session.outbox.append(envelope)
        session.outbox_bytes += len(envelope)
        self._ready[session.receiver] = session
        size = session.outbox_bytes + session.channel.retained_bytes
        if size - session.counted > GRAIN:
            self.backlog.grow(session, size)

    def end_step(self, ticket: int, committed: int = -1, *, joins: bool = False) -> None:
        """End a step: what it sends, and the acknowledgements of what it took, wait for `release(ticket)`.

        Steps that gave the journal nothing new, such as those that took heartbeats, are one with the last that did.

        Args:
            ticket: of the last step that the journal was given.
            committed: the last that is in it; if that is this one, nothing has to wait.
            joins: whether this step may leave together with earlier ones, as while the journal cannot be written: the more
                groups wait, the more steps join one. So few are there to be looked through, however long that lasts, and
                what is durable leaves soon.
        """
        for session, number in self.turns.handled.items():
            session.handled = number
            self.touched[session.receiver] = session
        self.turns.handled.clear()
        if not self.touched:
            return
        steps = self._ended_steps
        if ticket <= committed and not steps:
            self._let_leave()
            return
        last, waiting, first = steps[-1] if steps else (-1, {}, -1)
        if last != ticket:
            if joins and (ticket - first < len(steps) >> _JOINED_SHIFT or len(steps) >= _MOST_ENDED_STEPS):
                steps[-1] = ticket, waiting, first
            else:
                waiting = {}
                steps.append((ticket, waiting, ticket))
        for session in self.touched.values():
            if session.lost:
                continue  # `unacknowledged` tells what this step would have sent it
            size = session.outbox_bytes + session.channel.packed_bytes - session.channel.forgotten_bytes
            if size - session.counted > GRAIN:
                self.backlog.grow(session, size)
            fresh, session.fresh = session.fresh, []
            if session in waiting:
                before = waiting[session][0]
                before.extend(fresh)
                fresh = before
            waiting[session] = fresh, session.handled
        self.touched.clear()

    def _let_leave(self) -> None:
        """Let what this step sends leave, as nothing of it has to wait."""
        for session in self.touched.values():
            if session.lost:
                continue  # `unacknowledged` tells what this step would have sent it
            channel, fresh = session.channel, session.fresh
            channel.committed = session.handled
            if fresh:
                session.outbox.extend(fresh)
                fresh.clear()
                self._ready[session.receiver] = session
            elif session.handled - channel.told >= UNTOLD:
                self._asides.append((session.receiver, channel.acknowledgement()))
            size = session.outbox_bytes + channel.packed_bytes - channel.forgotten_bytes
            if size - session.counted > GRAIN:
                self.backlog.grow(session, size)
        self.touched.clear()

    def release(self, ticket: int) -> None:
        """Let everything leave of the steps that ended with this ticket or an earlier one."""
        steps = self._ended_steps
        while steps and steps[0][0] <= ticket:
            for session, (envelopes, handled) in steps.popleft()[1].items():
                session.outbox.extend(envelopes)
                if session.lost:
                    continue  # `unacknowledged` tells what it did not get
                channel = session.channel
                channel.committed = handled
                if envelopes:
                    self._ready[session.receiver] = session
                elif handled - channel.told >= UNTOLD:
                    self._asides.append((session.receiver, channel.acknowledgement()))

    def uncommitted(self, session: Session) -> list[bytes]:
        """The envelopes to a node that wait for the journal, in order."""
        return [
            envelope for _, waiting, _ in self._ended_steps if session in waiting for envelope in waiting[session][0]
        ]

    def let_go(self, session: Session) -> None:
        """Forget what is under way to a lost node, now that it was answered for: whatever the journal does."""
        session.let_go()
        for _, waiting, _ in self._ended_steps:
            waiting.pop(session, None)

    def outgoing(self) -> Iterator[tuple[Address, Message]]:
        """The frames to send now: (address, frame). Say `undelivered` at once for what the socket does not take."""
        while self._asides:
            yield self._asides.popleft()
        while self._errors:
            (receiver, _, _), frame = self._errors.popitem(last=False)
            yield receiver, frame
        while self._ready:
            receiver, session = self._ready.popitem()
            outbox, channel = session.outbox, session.channel
            if session.gone_since is not None:
                continue
            if channel.sent < channel.last:
                for number, frame in channel.unsent():
                    if session.blocked:
                        break
                    channel.sent = number
                    yield receiver, frame
            while outbox and not session.blocked:
                frame, size = channel.pack(outbox)
                session.outbox_bytes -= size
                channel.sent = channel.last
                yield receiver, frame

    def undelivered(self, address: Address, frame: Message) -> None:
        """Note that the socket had no room for a frame; a numbered one goes first next time."""
        session = self.by_address.get(address)
        number = read_number(frame)
        if session is not None and number:
            session.blocked = True
            session.channel.sent = min(session.channel.sent, number - 1)

    def retry(self) -> None:
        """Make every session that has something to send ready again."""
        for session in self._names.values():
            session.blocked = False
            if session.outbox or session.channel.sent < session.channel.last:
                self._ready[session.receiver] = session

    def unreachable(self, address: Address) -> None:
        """Note that the socket knows no such peer any more: its process has ended, or its connection broke."""
        session = self.by_address.get(address)
        if session is None:
            return
        if not self._patience and self._now >= self._lenient_until and not session.input.is_served:
            self.close(session, "its connection is gone")
        elif session.gone_since is None:
            session.gone_since = self._now
            self._gone.append(session)

    def stood_still(self, now: float) -> None:
        """Note that this process did not run for a while: who was not heard meanwhile has `timing.silence` to be heard."""
        self._lenient_until = now + self.timing.silence

    def expire(self, now: float) -> list[Session]:
        """The sessions that were lost since the last call, those silent for longer than `timing.silence` included.

        What waits for its turn of one that would be lost has another `timing.silence` to be handled, unless its queue is
        blocked: outcomes may be in it.
        """
        self._now = now
        self.backlog.shrink()
        silence = self.timing.silence
        for session in self._gone:
            if session.gone_since is None or now < self._lenient_until:
                continue
            if now - session.gone_since >= self._patience + silence * session.input.is_served:
                self.close(session, "its connection is gone")
        self._gone = [session for session in self._gone if session.gone_since is not None and not session.lost]
        for session in list(self._names.values()):
            silent = now - session.heard
            if silent > silence * (1 + session.input.is_served) and now >= self._lenient_until:
                self.close(session, f"silent for {silent:.1f} s")
        lost, self.lost = self.lost, []
        for session in lost:
            session.input.session = None  # a circle would keep what was under way to it until the collector comes
        return lost


def _random(size: int) -> int:
    return int.from_bytes(os.urandom(size)) or 1


def capability_of(envelope: bytes) -> bytes:
    """The capability that an envelope is about; what observers filter by."""
    return read_header(envelope).capability
