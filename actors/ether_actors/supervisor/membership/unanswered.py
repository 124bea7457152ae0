"""The shares of what has ended and is not answered: who has too much for too long loses the nodes that leave most."""

from __future__ import annotations

from typing import Final

from ether_actors.supervisor.state.broker_state import BrokerState
from ether_actors.supervisor.state.ledger import ENTRY_OVERHEAD
from ether_broker.transport.sessions.account import Account

__all__ = ["Unanswered"]

_WHY: Final = "it has not answered very much that has ended"


class Unanswered:
    """The owners of nodes, a key or a node without one, that leave more unanswered than `Ledger.most_held`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._since: dict[Account, float] = {}
        """{owner that did so when it was looked at last: since when}."""
        self._looked = 0.0

    def look(self) -> None:
        """Cut off nodes of those that have done so for as long as a node may be silent, until the rest is not too much.

        Time does not count in which a node is told nothing, as the journal cannot be written, or heard nothing, as it waits for
        what its owner has caused to be written.
        """
        state, ledger = self._state, self._state.ledger
        left_out, self._looked = state.now - self._looked, state.now
        if state.journal.trouble is not None:
            self.begin_anew()
            return
        self._since = {account: self._since.get(account, state.now) for account in ledger.much_held}
        for account in {queue.session.account for queue in state.session_table.turns.blocked if queue.session}:
            if account in self._since:
                self._since[account] += left_out
        for account, since in self._since.items():
            if state.now - since >= state.session_table.timing.silence:
                self._cut_off(account)

    def begin_anew(self) -> None:
        """Count the time of each from now on, as after one in which nothing of what they answer was taken."""
        self._since.clear()

    def _cut_off(self, account: Account) -> None:
        rows = [
            (sum(len(agent.ended_at_node) for agent in session.agents.values()), session)
            for session in self._state.session_table.sessions
            if session.account is account
        ]
        left = sum(count for count, _ in rows) * ENTRY_OVERHEAD  # of those that are cut off, more may still be counted
        for count, session in sorted(rows, key=lambda row: row[0], reverse=True):
            if left <= self._state.ledger.most_held or not count:
                return
            left -= count * ENTRY_OVERHEAD
            self._state.session_table.close(session, _WHY)
