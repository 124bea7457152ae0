from __future__ import annotations

import os
import threading
import time

import pytest

from ether.process.event_loop import ProcessEventLoop


@pytest.fixture
def reactor():
    reactor = ProcessEventLoop()
    yield reactor
    reactor.close()


def test_calls_from_another_thread_come_in_order(reactor):
    said: list[int] = []
    poster = threading.Thread(target=lambda: [reactor.post(lambda n=n: said.append(n)) for n in range(100)])
    poster.start()

    reactor.run(lambda: len(said) == 100)

    poster.join()
    assert said == list(range(100))


def test_a_time_that_is_past_is_due_at_once_and_a_later_one_is_waited_for(reactor):
    said: list[str] = []
    now = time.monotonic()
    reactor.call_at(now + 0.05, lambda: said.append("later"))
    reactor.call_at(now - 1.0, lambda: said.append("past"))

    reactor.run(lambda: len(said) == 2)

    assert said == ["past", "later"]
    assert time.monotonic() >= now + 0.05


def test_a_file_is_watched_until_it_is_not(reactor):
    there, here = os.pipe()
    said: list[bytes] = []

    def hear() -> None:
        said.append(os.read(there, 1))
        reactor.unwatch(there)

    reactor.watch(there, hear)
    assert reactor.is_watched(there)
    os.write(here, b"ab")

    reactor.run(lambda: bool(said))
    done: list[bool] = []
    reactor.post(lambda: done.append(True))
    reactor.run(lambda: bool(done))

    assert said == [b"a"]
    assert not reactor.is_watched(there)
    os.close(there)
    os.close(here)


def test_a_call_that_raises_is_logged_and_the_others_go_on(reactor, caplog):
    said: list[str] = []
    reactor.post(lambda: 1 / 0)
    reactor.post(lambda: said.append("next"))

    reactor.run(lambda: bool(said))

    assert "this is a bug" in caplog.text
