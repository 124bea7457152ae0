"""Warnings where nobody reads the log."""

from __future__ import annotations

import logging
import warnings

import pytest

from ether_broker.unread_log import warn_unread


@pytest.fixture
def logger() -> logging.Logger:
    logger = logging.Logger("apart")  # noqa: LOG001  no parent, so that pytest's handlers do not count
    logger.addHandler(logging.NullHandler())
    return logger


def said(logger: logging.Logger) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_unread(logger, "it failed")
    return [str(one.message) for one in caught]


def test_what_nobody_reads_is_a_warning(logger: logging.Logger) -> None:
    assert said(logger) == ["it failed"]
    logger.addHandler(logging.StreamHandler())
    assert said(logger) == []


def test_a_logger_that_is_set_to_errors_only_is_left_silent(logger: logging.Logger) -> None:
    logger.setLevel(logging.ERROR)

    assert said(logger) == []


def test_no_text_is_kept_however_many_there_are(logger: logging.Logger) -> None:
    kept = globals().setdefault("__warningregistry__", {})
    before = len(kept)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for number in range(100):
            warn_unread(logger, f"it failed {number}", stacklevel=2)

    assert len(caught) == 100
    assert {one.filename for one in caught} == {__file__}
    assert len(kept) == before


def test_what_a_peer_worded_is_shown_without_what_a_terminal_obeys_and_in_its_own_lines(logger: logging.Logger) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_unread(logger, "boom\x1b[31m\nWARNING forged\u202e")
        warn_unread(logger, "x" * 900_000)
    first, long = (str(one.message) for one in caught)
    assert first == "boom\\x1b[31m\n    WARNING forged\\u202e"
    assert len(long) == 10_001
