"""Numbers that are no times are told where they are given."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ether import Agent, Runtime, Task, UsageError, as_completed, capability


class Sub(Agent):
    @capability("sub.do")
    def do(self) -> dict[str, Any]:
        return {}


class Top(Agent):
    timeout: Any = None

    @capability("top.do")
    def do(self, task: Task) -> dict[str, Any]:
        try:
            return {"status": task.delegate("sub.do", {}, timeout=Top.timeout).result(10).status.name}
        except UsageError as error:
            return {"error": str(error)}


@pytest.mark.parametrize("timeout", [math.nan, 0, -1, True, "5"])
def test_a_sub_delegation_with_a_timeout_that_is_none_is_a_usage_error(timeout: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Top, "timeout", timeout)
    with Runtime() as bus:
        bus.start(Sub)
        bus.start(Top)

        data = bus.delegate("top.do", timeout=10).result().unwrap().data

    assert data == {"error": f"timeout={timeout!r}: seconds above 0; None takes all that is left."}


def test_endless_patience_waits_and_what_is_no_number_is_a_usage_error():
    with Runtime() as bus:
        bus.start(Sub)

        assert bus.delegate("sub.do", timeout=10).result(timeout=math.inf).status.name == "COMPLETED"
        assert [handle.done for handle in as_completed([bus.delegate("sub.do", timeout=10)], timeout=math.inf)] == [
            True
        ]
        for wrong in (math.nan, True, "5", 10**400):
            handle = bus.delegate("sub.do", timeout=10)
            with pytest.raises(UsageError, match="seconds of patience, or None"):
                handle.result(timeout=wrong)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="seconds of patience, or None"):
                list(as_completed([handle], timeout=wrong))  # type: ignore[arg-type]
            handle.result()
