"""Inline delegation: the thread that delegates steps an embedded broker itself, and runs the handler.

`SupervisorActor` has the step, `Supervisor.step_direct` bounds what one takes, and `Cell.run_only` runs the handler.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from ether.node.connection.sender import SendCall
from ether_actors.threads.pool import this_thread
from ether_broker.asyncio_checks import runs_event_loop

__all__ = ["Inline"]


_SHARE: Final = 8
"""The part of the recursion limit that the frames of a thread may have is one in so many."""


class Inline(NamedTuple):
    """The two halves of an inline delegation, and who may do both."""

    send: SendCall
    """As `Link.send`, but nobody is told."""
    step: Callable[[], None]
    """Steps the broker in the calling thread, unless another thread does."""

    @staticmethod
    def may_run() -> bool:
        """Whether the calling thread may run a handler and step the broker.

        Not the main thread, in which the handlers of signals run at any point; not within another inline delegation, so
        that the stack does not grow by them; not in an event loop of asyncio, in which a handler could not have one of its
        own; and not deep in a recursion, as a RecursionError would leave a step of the broker half done. Python 3.11 counts
        calls of C towards its limit too, and they have no frames here: there may be several for each frame.
        """
        if this_thread.is_inline or threading.get_ident() == threading.main_thread().ident or runs_event_loop():
            return False
        try:
            sys._getframe(sys.getrecursionlimit() // _SHARE)  # noqa: SLF001  there is no other way to ask
        except ValueError:  # the stack is not so deep
            return True
        return False
