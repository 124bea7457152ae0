"""Delegate: two agents in this process, and what comes of work that can be done and of work that cannot.

COMPLETED {'words': 4}
REJECTED_CONTEXT by counter: misfit: words.count does not take these params: text: Field required; ...
REJECTED_CAPABILITY by ether: no_holder: No agent holds 'words.translate'. Did you mean 'words.count'?
COMPLETED [2, 3]
"""

from __future__ import annotations

from ether import Agent, Runtime, Task, capability


class Counter(Agent):
    """Counts words."""

    @capability("words.count", idempotent=True)
    def count(self, text: str) -> dict[str, int]:
        """Count those of one text."""
        return {"words": len(text.split())}


class Editor(Agent):
    """Counts the words of several texts, with the help of whoever counts."""

    @capability("words.count_all")
    async def count_all(self, texts: list[str], task: Task) -> list[int]:
        """Delegate each text, and gather the answers."""
        handles = [task.delegate("words.count", {"text": text}) for text in texts]
        return [(await handle).unwrap().data["words"] for handle in handles]


if __name__ == "__main__":
    with Runtime() as bus:
        bus.start(Counter)
        bus.start(Editor)
        response = bus.delegate("words.count", {"text": "an actor message bus"}, timeout=10).result()
        print(response.status, response.data)
        print(bus.delegate("words.count", {"words": "misspelt"}).result().explain())
        print(bus.delegate("words.translate", {"text": "an actor"}).result().explain())
        response = bus.delegate("words.count_all", {"texts": ["two words", "and three more"]}).result()
        print(response.status, response.data)
