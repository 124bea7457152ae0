"""Restarts: an agent that crashes is restarted with its mailbox kept, and who depends on it is started with it.

['store started', 'cache started']
FAILED_EXECUTION by store: agent_crash: AgentCrash: the state is broken
COMPLETED from the store
['store started', 'cache started', 'store started', 'cache started']
"""

from __future__ import annotations

from ether import Agent, AgentCrash, ChildSpec, Runtime, Strategy, SupervisorSpec, capability

life: list[str] = []


class Store(Agent):
    """Has a state, which may break."""

    def on_start(self) -> None:
        """Make the state."""
        life.append("store started")

    @capability("store.read")
    def read(self, *, broken: bool = False) -> str:
        """Read; AgentCrash says that the state is of no use any more."""
        if broken:
            raise AgentCrash("the state is broken")
        return "from the store"


class Cache(Agent):
    """Knows what the store said, and so is of no use without that very store."""

    def on_start(self) -> None:
        """Begin empty."""
        life.append("cache started")

    @capability("cache.size")
    def size(self) -> int:
        """Tell how much it knows."""
        return 0


if __name__ == "__main__":
    children = (ChildSpec("store", Store), ChildSpec("cache", Cache))
    with Runtime() as bus:
        bus.supervise(SupervisorSpec("storage", strategy=Strategy.REST_FOR_ONE, children=children))
        print(life)
        crash, work = bus.delegate("store.read", {"broken": True}), bus.delegate("store.read")
        print(crash.result().explain())
        print(work.result().status, work.result().data)
        bus.delegate("cache.size").result()  # it is back, too
        print(life)
