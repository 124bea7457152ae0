"""Observers: metrics of what the agents do, and an observer of one's own, neither of which can slow the bus.

judge: 4 executions, 75 % successful
rejected: {'text.translate': 1}
text.judge: FAILED_EXECUTION by judge: exception: ValueError: an empty text
text.translate: REJECTED_CAPABILITY by ether: no_holder: ...
"""

from __future__ import annotations

from ether import Agent, Observation, Observer, Runtime, capability
from ether.observers import Metrics


class Judge(Agent):
    """Judges texts."""

    @capability("text.judge", idempotent=True)
    def judge(self, text: str) -> str:
        """Find every text good that is there."""
        if not text:
            raise ValueError("an empty text")
        return "good"


class Failures(Observer):
    """Keeps what went wrong."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def on_response(self, observation: Observation) -> None:
        """Look at an outcome."""
        response = observation.response
        if response.status.is_terminal and not response.ok:
            self.found.append(f"{observation.capability}: {response.explain()}")


if __name__ == "__main__":
    with Runtime() as bus:
        bus.start(Judge)
        metrics, failures = bus.observe(Metrics(windows=(60,))), bus.observe(Failures())
        for text in ("a", "b", "", "c"):
            bus.delegate("text.judge", {"text": text}).result()
        bus.delegate("text.translate", {"text": "a"}).result()
        bus.settle(metrics)
        bus.settle(failures)

        window = metrics.snapshot().windows["60"]
        judge = window.by_agent["judge"]
        print(f"judge: {judge.executions} executions, {judge.success_rate:.0%} successful".replace("%", " %"))
        print("rejected:", window.rejections)
        print(*failures.found, sep="\n")
