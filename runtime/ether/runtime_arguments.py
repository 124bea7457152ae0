"""The arguments of a Runtime, checked before anything is made of them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from ether_actors.agent.agent import Agent
from ether_actors.agent.composable_adapter import is_agent
from ether_actors.number_check import check_number
from ether_broker.asyncio_checks import runs_event_loop
from ether_broker.envelope.delegation import LONGEST_TIMEOUT
from ether_broker.errors import UsageError
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.timing import Timing
from ether_broker.unread_log import warn_unread

if TYPE_CHECKING:
    from pathlib import Path

    from ether_broker.security.credentials import Credentials, KeysLike, ServerKey
    from ether_broker.security.keyring import Keyring

__all__ = [
    "check_given",
    "check_may_block",
    "check_seconds",
    "check_start",
    "credentials_of",
    "keyring_of",
    "node_name",
]

logger: logging.Logger = logging.getLogger("ether.runtime")

_KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "name": ((str,), "text"),
    "bind": ((str,), "an address, such as 'tcp://127.0.0.1:*'"),
    "journal": ((str, os.PathLike), "the path of a file"),
    "limits": ((Limits,), "a Limits, as in Limits(mailbox_count=…)"),
    "timing": ((Timing,), "a Timing, as in Timing(heartbeat=…)"),
}
"""{keyword: (the classes of its values, what they are)}"""


def check_given(**given: object) -> None:
    """Check the values of keywords, of which each may be None.

    Raises:
        UsageError: one is of another class, or an empty text.
    """
    for name, value in given.items():
        kinds, what = _KINDS[name]
        if value is not None and not isinstance(value, kinds):
            raise UsageError(f"{name}={value!r:.40}: {what}, or None.")
        check_said(name, value)


def check_may_block(call: str, in_thread: str) -> None:
    """Check that what waits for running work is not called in a thread that runs an event loop.

    Args:
        call: what was called.
        in_thread: it and its arguments, as `asyncio.to_thread` takes them.

    Raises:
        UsageError: it is; the message has what to write.
    """
    if runs_event_loop():
        raise UsageError(
            f"{call} waits for running work and would block the event loop: await asyncio.to_thread({in_thread})."
        )


def check_said(what: str, value: object) -> None:
    """Check that a text says something: whoever gives an empty one has forgotten to.

    Raises:
        UsageError: it is empty.
    """
    if value == "":
        raise UsageError(f"{what} is empty: say what it is, or None.")


def check_seconds(where: str, name: str, value: object) -> None:
    """Check a number of seconds that something may take.

    Raises:
        InvalidSpec: it is none.
    """
    wanted = f"seconds, 0 to {LONGEST_TIMEOUT:,.0f}"
    check_number(where, name, value, wanted, lambda seconds: 0 <= seconds <= LONGEST_TIMEOUT)


def check_start(agent: object, count: int, cls: type[Agent] | None) -> None:
    """Refuse what cannot be started, before anything is made of it."""
    if not callable(agent):
        what = (
            f"is {agent!r}; text is for Cluster and `ether up`"
            if isinstance(agent, str)
            else f"is a {type(agent).__name__}"
        )
        msg = f"start takes the agent's class, or a callable that makes one, as in bus.start(Writer); this {what}."
        raise UsageError(msg)
    if cls is None and isinstance(agent, type) and not is_agent(agent):
        raise UsageError(f"{agent.__name__} is not an Agent: derive it from ether.Agent.")
    if not isinstance(count, int) or count < 0:
        raise UsageError(f"start_many(…, {count!r}): how many is a whole number, 0 or more.")
    if cls is None or cls.manifest().declared:
        return
    own = any(callable(value) and name[0] != "_" and not hasattr(Agent, name) for name, value in vars(cls).items())
    acts_by_itself = cls.on_start is not Agent.on_start and not own  # a method of its own may lack its decorator
    if cls.on_receive is Agent.on_receive and not acts_by_itself:
        how = 'decorate a method with @capability("…") or @on_event("…")'
        msg = f"{cls.__qualname__} declares no capability, so nobody can ask it: {how}."
        logger.warning(msg)
        warn_unread(logger, msg)


def node_name(name: str | None, credentials: Credentials | None) -> str:
    """The name of a node: what is given, or who made it and chance. A key of a name may be any node below that name.

    Raises:
        UsageError: it is empty, or no text.
    """
    check_given(name=name)
    if name is not None:
        return name
    chance = f"{os.getpid()}-{os.urandom(2).hex()}"
    if credentials is not None and credentials.pair.name:
        return f"{credentials.pair.name}/{chance}"
    host = "".join(c if c.isalnum() or c in "-_" else "-" for c in os.uname().nodename) or "host"
    return f"{host}-{chance}"


def keyring_of(keys: Keyring | Path | str | None) -> Keyring | None:
    """The keys of a bus, or None.

    Raises:
        UsageError: this is neither a folder nor a `Keyring`.
        InvalidKey: they cannot be used.
    """
    if keys is None:
        return None
    check_said("keys", keys)
    from ether_broker.security.keyring import Keyring

    if isinstance(keys, Keyring):
        return keys
    if not isinstance(keys, str | os.PathLike):
        raise UsageError(f"keys={keys!r:.40}: the folder of keys, or a Keyring, or None.")
    return Keyring(keys)


def credentials_of(keys: KeysLike, server_key: ServerKey | None = None) -> Credentials:
    """The keys of a node, and the broker's.

    Raises:
        UsageError: `keys` is an empty text.
        InvalidKey: they cannot be used.
    """
    from ether_broker.security.credentials import Credentials

    check_said("keys", keys)
    return Credentials.of(keys, server_key)
