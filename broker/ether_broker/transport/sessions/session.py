"""The session of one incarnation of a node at the broker: what it said of itself, and what is under way to and from it."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ether_broker.observer_cursor import OBSERVER_WINDOW_BYTES, ObserverCursor
from ether_broker.transport.address import INCARNATION, NOWHERE, Address
from ether_broker.transport.channel import Channel
from ether_broker.transport.sessions.account import Account
from ether_broker.transport.sessions.turns import InputQueue

if TYPE_CHECKING:
    from ether_broker.security.access_list import DelegateRule

__all__ = ["Fetch", "Life", "Session"]

Life = tuple[str, bytes]
"""An incarnation of a node under its name, whichever of its sessions: (node, digest of the incarnation)."""


@dataclass(eq=False, slots=True)
class Session:
    """One period of an incarnation of a node at the broker."""

    node: str
    incarnation: bytes
    heard: float
    """When it last gave a sign of life, in seconds by the broker's clock."""
    info: dict[str, object] = field(default_factory=dict)
    """What it says of itself: host, pid, version."""
    agents: dict[bytes, Any] = field(default_factory=dict)
    """The registrations of the agents that it registered, by name; it speaks for no others (G6)."""
    newcomers: set[bytes] = field(default_factory=set)
    """Agents registered since the node last announced that all of its agents drain or leave."""
    rules: Counter[DelegateRule] = field(default_factory=Counter)
    """The rules of the access list that let its agents delegate: {rule: agents}; none where there is no list."""
    reported: set[bytes] = field(default_factory=set)
    """Agents already reported in the heartbeat that is being received."""
    loaded: set[bytes] = field(default_factory=set)
    """Agents of which its last heartbeat told how they are; the others had nothing to do."""
    input: InputQueue[Session] = field(default_factory=InputQueue)
    """What has come from it and waits for its turn."""
    handled: int = 0
    """Number of the last of its frames that was handled whole."""
    owner: str = ""
    """The key of its connections, where they have keys."""
    account: Account = field(default_factory=Account)
    """Of its key, or its own where there are no keys."""
    manifests: Counter[bytes] = field(default_factory=Counter)
    """The manifests that its agents have now, packed: {manifest: agents that have it}."""
    manifest_bytes: int = 0
    """Bytes of them, each counted once."""
    progress_waiting: int = 0
    """Bytes of progress of its agents that waits to be passed on."""
    monitors: dict[bytes, Any] = field(default_factory=dict)
    """What it wants to be told of: {token: the agent or node}."""
    cursors: dict[bytes, ObserverCursor] = field(default_factory=dict)
    """How far each of its observers is: {token: cursor}."""
    holding: dict[bytes, dict[bytes, int]] = field(default_factory=dict)
    """What it was given before this session and holds, until its agents are registered: {agent: {request id: attempt}}."""
    has_resumed: bool = False
    """Whether it said RESUME: it was in a session before, perhaps of another broker."""
    fetches: dict[bytes, Fetch] = field(default_factory=dict)
    """The FETCHes that it said and that have no CHUNK yet: {request id: fetch}."""
    has_no_key: bool = False
    """Whether the last of its FETCHes that was answered had no valid key."""
    serves: dict[bytes, Fetch] = field(default_factory=dict)
    """Those that were passed on to it and that it has not answered: {request id: fetch}."""
    fetched: dict[Session, dict[bytes, bytes]] = field(default_factory=dict)
    """Those that wait for it, in the order of the turns: {who asks: {request id: envelope}}, each among its `fetches`."""
    has_said_bye: bool = False
    """Whether it said BYE: another node may take its name."""
    was_told_bye: bool = False
    """Whether it was told BYE."""
    lost: str = ""
    """Why it is gone; empty while it is there."""
    is_expected: bool = False
    """Whether it was there before the broker was restarted, and may come back."""
    channel: Channel[Any] = field(default_factory=lambda: Channel(0))
    outbox: deque[bytes] = field(default_factory=deque)
    """What may leave."""
    fresh: list[bytes] = field(default_factory=list)
    """What this step sends; it may leave when the step is in the journal."""
    outbox_bytes: int = 0
    """Bytes of all that has not been sent."""
    counted: int = 0
    """Bytes that are kept for it, sent or not, as far as the `Backlog` has counted them."""
    blocked: bool = False
    """The socket has no room for it at the moment."""
    gone_since: float | None = None
    """When its connection was found gone; None while it is there."""

    receiver: Address = NOWHERE
    """Where it listens."""
    talks: Address = NOWHERE
    """Where it talks."""
    digest: bytes = b""
    """Of its incarnation: what others are told, because with the incarnation they could speak in its place."""
    life: Life = field(init=False)
    """The node and the digest: who knows an incarnation is not yet that node."""

    def __post_init__(self) -> None:
        """Derive the digest and the life."""
        self.input.session = self
        digest = hashlib.blake2b(self.incarnation, digest_size=INCARNATION, person=b"ether-node")
        self.digest = self.digest or digest.digest()
        self.life = self.node, self.digest

    @property
    def principal(self) -> str:
        """Whose shares it uses: the key of its connections, or its node's name where there are no keys."""
        return self.owner or self.node

    def share_window(self) -> None:
        """Share out what may be under way to its observers, now that one came or went."""
        for cursor in self.cursors.values():
            cursor.window = OBSERVER_WINDOW_BYTES // len(self.cursors)

    def let_go(self) -> None:
        """Forget what is under way to it, now that it is lost and that was answered for: its agents stay known for a while."""
        self.channel, self.outbox = Channel(self.channel.session), deque(maxlen=0)
        self.fresh.clear()

    def unacknowledged(self) -> list[bytes]:
        """The envelopes that it may not have got, in order."""
        return [*self.channel.unacknowledged(), *self.outbox, *self.fresh]


@dataclass(eq=False, slots=True)
class Fetch:
    """A FETCH that has no CHUNK yet."""

    request_id: bytes
    asking: Session
    server: Session
    """Whose file it is."""
    is_wanted: bool = True
    """Whether who asks still wants the answer."""
