"""Messages that are told or asked with a pykka ref; everything else that an agent handles is a delegation."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

if TYPE_CHECKING:
    from ether_actors.agent.agent import Agent

__all__ = ["asks_to_stop", "refuse", "serve"]

logger = logging.getLogger("ether.agent")

_PROXY: Final = (ProxyCall, ProxyGetAttr, ProxySetAttr)


def asks_to_stop(envelope: Any) -> bool:
    """Whether it is pykka's own `stop`."""
    return type(envelope.message).__name__ == "_ActorStop"


def serve(agent: Agent, envelope: Any) -> BaseException | None:
    """Let an agent handle it; what that raises goes to the asker, or into the log, and is returned."""
    try:
        if isinstance(envelope.message, _PROXY):
            result = agent._handle_receive(envelope.message)  # noqa: SLF001  pykka's own way to serve a proxy
        else:
            result = agent.on_receive(envelope.message)
        if envelope.reply_to is not None:
            envelope.reply_to.set(result)
    except BaseException as error:
        if envelope.reply_to is not None:
            envelope.reply_to.set_exception(sys.exc_info())
        else:
            logger.exception("%s: a message that was told raised", agent.agent_name)
        return error
    return None


def refuse(envelope: Any, name: str) -> None:
    """Answer, if it was asked, what an agent has left behind that is stopped now."""
    if envelope.reply_to is None:
        return
    if asks_to_stop(envelope):
        envelope.reply_to.set(None)
    else:
        error = pykka.ActorDeadError(f"{name} stopped before it handled the message")
        envelope.reply_to.set_exception((pykka.ActorDeadError, error, None))
