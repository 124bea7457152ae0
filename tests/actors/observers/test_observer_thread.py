from __future__ import annotations

from types import SimpleNamespace

from ether import Observer
from ether.node.attached_observers import AttachedObservers
from ether.node.connection.control_calls import Reply
from ether_actors.observers.observer_thread import ObserverThread
from ether_broker.envelope.payload import unpack
from ether_broker.wire.frame import Kind, read_header
from tests.support import wait_until


def test_with_another_broker_an_observer_counts_from_one_and_misses_nothing():
    acknowledged: list[int] = []
    observing = ObserverThread(Observer(), acknowledged.append)
    observing.start(14)
    assert observing.following == 14
    observing.begin_again()
    assert observing.following == 1
    wait_until(lambda: acknowledged)
    observing.stop()

    assert acknowledged == [1]
    assert observing.observer.position == 1
    assert observing.observer.missed == 0


def test_an_observer_whose_broker_dies_before_it_answers_begins_where_it_wanted_to():
    class Dying:
        """The questions of a node whose broker is another before it has answered."""

        def ask(self, _envelopes: list[bytes], _tokens: list[bytes]) -> list[Reply]:
            (wish,) = observers.wishes()
            reply = Reply(wish)
            reply.kind = Kind.OBSERVE
            reply.body = {"next": unpack(wish[read_header(wish).body :])["from"]}
            return [reply]

    resources = SimpleNamespace(make_observing=ObserverThread)
    observers = AttachedObservers(None, Dying(), resources)  # type: ignore[arg-type]  # as much of them as is used

    observing = observers.observe(Observer(), 6769)
    observing.stop()

    assert observing.following == 6769
