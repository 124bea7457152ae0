"""Questions about asyncio: before it is loaded, while another thread loads it, and in its event loop."""

from __future__ import annotations

import asyncio
import sys
import types

import pytest

from ether_broker.asyncio_checks import is_cancellation, runs_event_loop
from tests.support import run_python


def test_asking_does_not_load_it():
    asked = "print(runs_event_loop(), is_cancellation(ValueError()), 'asyncio' in sys.modules)"

    assert run_python(f"import sys; from ether_broker.asyncio_checks import *; {asked}").split() == ["False"] * 3


def test_while_it_is_loaded_no_event_loop_runs_and_nothing_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncio", types.ModuleType("asyncio"))

    assert not runs_event_loop()
    assert not is_cancellation(ValueError())


def test_a_thread_with_an_event_loop_is_told_from_one_without() -> None:
    async def within() -> bool:
        return runs_event_loop()

    assert not runs_event_loop()
    assert asyncio.run(within())


def test_a_cancellation_is_told_from_other_errors() -> None:
    assert is_cancellation(asyncio.CancelledError())
    assert not is_cancellation(KeyboardInterrupt())
