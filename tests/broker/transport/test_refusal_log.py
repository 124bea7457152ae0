from __future__ import annotations

import threading
from logging import DEBUG, WARNING

from ether_broker.errors import NameTaken, NoSession
from ether_broker.transport.refusal_log import RefusalLog


def test_a_flood_of_one_peer_writes_a_line_each_time_that_the_number_doubles(caplog):
    refusals = RefusalLog()

    for _ in range(1000):
        refusals.note("mallory", "forged", "it lies")

    assert refusals.total == refusals.by_reason["forged"] == 1000
    assert len(caplog.records) == 10
    assert "forged of mallory (512 times by now): it lies" in caplog.records[-1].getMessage()


def test_each_peer_and_each_reason_is_told_by_itself(caplog):
    refusals = RefusalLog()

    for peer, reason in (("a", "x"), ("b", "x"), ("a", "y"), ("a", "x")):
        refusals.note(peer, reason, "")

    assert refusals.by_reason == {"x": 3, "y": 1}
    assert len(caplog.records) == 4


def test_a_crowd_of_peers_fills_neither_the_memory_nor_the_log(caplog):
    refusals = RefusalLog()

    for number in range(100_000):
        refusals.note(f"peer-{number}", "unknown_key", "")

    assert refusals.total == 100_000
    assert len(refusals._counts) <= 1001
    assert len(caplog.records) < 1100


def test_a_peer_that_has_to_say_hello_is_told_of_and_is_no_warning(caplog):
    refusals = RefusalLog()
    caplog.set_level("INFO")

    refusals.note("", NoSession.code, "")
    refusals.note("", "forged", "")

    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert refusals.by_reason["no_session"] == 1


def test_what_is_ordinary_of_a_reason_hides_no_warning_of_it(caplog):
    refusals = RefusalLog()
    caplog.set_level("DEBUG")

    for level in (DEBUG, DEBUG, WARNING, WARNING, DEBUG, WARNING, DEBUG):
        refusals.note("", "handshake_failed", "", level)
    refusals.note("", NameTaken.code, "")

    assert [record.levelno for record in caplog.records] == [DEBUG, DEBUG, WARNING, WARNING, DEBUG, DEBUG]
    assert refusals.by_reason == {"handshake_failed": 7, "name_taken": 1}


def test_threads_count_together(caplog):
    refusals = RefusalLog()
    threads = [
        threading.Thread(target=lambda: [refusals.note("a", "x", "") for _ in range(2000)]) for _ in range(4)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert refusals.total == refusals.by_reason["x"] == 8000
