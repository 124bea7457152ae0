"""What holds for every test: nothing is left behind, random examples can be had again, and who measures is not disturbed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from functools import cache

import pytest
import zmq.utils.garbage
from hypothesis import settings

from ether_broker.artifacts.fetching import FETCHERS
from tests.leaks import Census, leaked_since, mark_this_run
from tests.turns import Turns

# No deadline for an example: on two shared cores it would say how busy the machine is.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


# Who is started in the background of a script ignores SIGINT, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


_turns = cache(Turns)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Run the test in its turn, so that one marked `alone` has the machine; a test's timeout does not count the wait."""
    assert item.config.cache is not None
    turns = _turns(item.config.cache.mkdir("turns"))
    with turns.of_test(is_alone=_is_alone(item), is_next_alone=nextitem is not None and _is_alone(nextitem)):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what is alone, then what says that it may take long, the longest first; the others stay as they are.

    So one worker has what waits, the others have what computes, and no long test is left when the others have ended.
    """
    items.sort(key=lambda item: (not _is_alone(item), -_most_seconds(item)))


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _most_seconds(item: pytest.Item) -> float:
    """What the test's own `timeout` mark says; 0 where there is none."""
    mark = item.get_closest_marker("timeout")
    return 0.0 if mark is None else float(mark.args[0])


@pytest.fixture(scope="session", autouse=True)
def _journals_are_kept_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`ether up` keeps a journal in the user's folder for state; a test's is gone with the test run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _census_knows_this_run() -> Iterator[None]:
    mark_this_run()
    # At the first message sent without a copy, pyzmq opens a thread, a context and a socket, and keeps them
    # until the process ends. Here from the start, they are no test's leak. Shorter messages it always copies.
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        one.bind("inproc://first")
        other.connect("inproc://first")
        one.send(bytes(zmq.COPY_THRESHOLD + 1), copy=False)
        other.recv()
    yield
    zmq.utils.garbage.gc.stop()


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that leaves a thread, a process, a socket or a ZeroMQ context; forget nodes that were made by hand."""
    before, nodes = Census.take(), set(FETCHERS)
    yield
    for made_by_hand in set(FETCHERS) - nodes:  # else the next test fetches artifacts by them
        del FETCHERS[made_by_hand]
    if left := leaked_since(before):
        pytest.fail("left behind:\n" + "\n".join(left), pytrace=False)
