"""Counts what a call costs, in units that are the same on every machine and in every run."""

from __future__ import annotations

import sys
import tracemalloc
from collections import deque
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

__all__ = ["WorkCounter"]

_LINEAR: Final = frozenset({"copy", "count", "extend", "index", "insert", "remove", "reverse", "sort"})
"""Methods of lists and deques whose cost grows with their length, which no opcode tells."""
_FEW: Final = 256
"""Opcodes after which their number is added to the others."""
_BYTES: Final = 16
"""Of memory at the most that count as one unit: two references, as a copy of a container has them."""


class WorkCounter:
    """A context manager; what runs in it, in this thread, is counted.

    A unit is an opcode of Python code, an element of a list or deque that a method of it went through, or 16 bytes of the
    memory that was in use at the most beyond what was in use before: the last two make copies and searches visible that
    run in C. What it does not see: `in` on a list, and `min`, `max` and `sum` straight over a container.
    """

    def __init__(self) -> None:
        self.work = 0
        """Units, when it has ended."""

    def __enter__(self) -> Self:
        self._before = sys.gettrace(), sys.getprofile()
        trace = self._tracer()
        tracemalloc.start()
        sys.setprofile(self._profile)
        sys.settrace(trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        sys.settrace(self._before[0])
        self.work += self._rest()
        sys.setprofile(self._before[1])
        self.work += tracemalloc.get_traced_memory()[1] // _BYTES
        tracemalloc.stop()

    def _tracer(self) -> Callable[[FrameType, str, Any], Any]:
        """What is called for each opcode: it makes no object, as each would be traced too and take longer than all else."""
        few = 0  # up to 256, whose numbers Python has

        def trace(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal few
            if event == "opcode":
                few += 1
                if few == _FEW:
                    self.work += few
                    few = 0
            elif event == "call":
                frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return trace

        self._rest = lambda: few
        return trace

    def _profile(self, _frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and arg.__name__ in _LINEAR:
            owner = getattr(arg, "__self__", None)
            if isinstance(owner, (list, deque)):
                self.work += len(owner)
