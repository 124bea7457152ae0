"""A budget: sub-delegations share what is left of it, and what was used comes back with the outcome.

COMPLETED cost 0.6
PARTIAL cost 1.2
max_cost 1 did not hold: 1.2 was used.
"""

from __future__ import annotations

from ether import Agent, Budget, Response, Runtime, Task, capability


class Writer(Agent):
    """Writes sections; each costs 0.3, as a model would."""

    max_concurrency = 4

    @capability("report.section")
    def section(self, title: str, task: Task) -> Response:
        """Write one, and tell what it cost."""
        return task.respond(data=f"# {title}", metadata={"cost": 0.3})


class Chief(Agent):
    """Has a report written, with an equal part of the budget for each section."""

    @capability("report.write")
    def write(self, titles: list[str], task: Task) -> list[str]:
        """Delegate the sections side by side."""
        part = task.budget.part(len(titles))
        handles = [task.delegate("report.section", {"title": title}, budget=part) for title in titles]
        return [handle.result().data for handle in handles]


if __name__ == "__main__":
    with Runtime() as bus:
        bus.start(Writer)
        bus.start(Chief)
        for titles in (["Aim", "Result"], ["Aim", "Method", "Result", "Sources"]):
            response = bus.delegate("report.write", {"titles": titles}, budget=Budget(max_cost=1.0)).result()
            print(response.status, "cost", response.metadata["cost"])
            print(*response.unresolved, sep="\n", end="\n" if response.unresolved else "")
