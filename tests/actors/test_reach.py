"""The access list where the supervisor finds another holder; the rest is in `tests/runtime/test_access.py`."""

from __future__ import annotations

import pytest

from ether_broker.security.access import Access, DelegateRule
from ether_broker.wire import Kind
from tests.actors.rulings_shell import pair


@pytest.mark.parametrize(("to", "taken"), [("*", 1), ("a", 0)])
def test_work_of_a_lost_node_goes_only_where_its_delegator_may_send_it(to: str, taken: int):
    bus, d, a = pair(idempotent=True)
    bus.records.access = Access(delegate=[DelegateRule("d", to=to)])
    d.delegate("d", timeout=60.0)
    bus.step()
    bus.records.access = bus.records.access.extended(owners=["nb"])
    other = bus.node("nb", "b", idempotent=True)
    a.die()
    bus.pass_time(5.0)

    assert len(other.took(Kind.DELEGATION)) == taken
