"""The checker finds each kind of broken promise in a history made by hand, and nothing in a good one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from ether.lab.torture.checker.checker import RULES
from ether.lab.torture.history.history import read_evidence
from ether.lab.torture.settings import Durability
from ether_broker.errors import UsageError
from tests.torture.story import Story, check, delegation, outcome


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """One delegation that went well."""
    return good(tmp_path)


@pytest.fixture
def kept(tmp_path: Path) -> Story:
    """The same with a journal."""
    return good(tmp_path, "journal")


def good(folder: Path, durability: Durability = "memory") -> Story:
    made = Story(folder, durability)
    made.done()
    return made


def an_outcome_is_never_told(story: Story) -> None:
    story.ask("d2", 120.0)


def two_outcomes_pass(story: Story) -> None:
    story.passes(outcome("d1", "TIMEOUT", "deadline"), 111.05)


def the_delegator_is_told_two_different_outcomes(story: Story) -> None:
    story.answer("d1", 103.0, "FAILED_EXECUTION", "exception")
    del story.observed["observer-1"][1:]


def one_life_is_told_the_same_outcome_twice(story: Story) -> None:
    story.answer("d1", 103.0)


def the_delegator_is_told_another_outcome_than_passed(story: Story) -> None:
    story.history["delegator-1"][-1]["mark"] = "forged"


def what_the_link_refused_has_passed(story: Story) -> None:
    story.ask("d2", 120.0)
    story.tell("delegator-1", "fail", 120.0, id="d2", code="link_full")
    story.passes(delegation("d2", 130.0), 120.1)


def progress_comes_out_of_order(story: Story) -> None:
    story.history["delegator-1"][-1]["disordered"] = 2


def what_must_not_run_twice_runs_twice(story: Story) -> None:
    story.run("node-2", "start", 101.2, id="d1", attempt=2, capability="torture.quick.once", node="node-2", pid=12)


def an_attempt_runs_twice(story: Story) -> None:
    story.done("d2", 110.0, word="again")
    story.run("node-2", "start", 110.2, id="d2", attempt=1, capability="torture.quick.again", node="node-2", pid=12)


def completed_without_a_run(story: Story) -> None:
    story.runs.clear()


def completed_by_a_run_that_raised(story: Story) -> None:
    story.runs["node-1"][-1]["how"] = "raised"


def something_runs_that_nobody_asked_for(story: Story) -> None:
    story.run("node-1", "start", 101.2, id="d9", attempt=1, capability="torture.quick.once", node="node-1", pid=11)


def an_outcome_passes_after_the_window(story: Story) -> None:
    story.done("d2", 120.0, status="TIMEOUT", code="deadline", took=10.3)


def a_timeout_passes_before_its_deadline(story: Story) -> None:
    story.done("d2", 120.0, status="TIMEOUT", code="deadline", took=9.9)


def the_delegator_is_told_a_timeout_early(story: Story) -> None:
    story.ask("d2", 120.0)
    story.answer("d2", 128.0, "TIMEOUT", "deadline")


def work_is_started_after_its_deadline(story: Story) -> None:
    story.runs["node-1"][0]["at"] = 111.3
    story.runs["node-1"][1]["at"] = 111.4


def an_observer_is_not_shown_a_number(story: Story) -> None:
    last = story.observed["observer-1"][-1]
    last.update(first=4, next=5, messages=[[4, *last["messages"][0][1:]]])


def an_observer_is_shown_a_number_twice(story: Story) -> None:
    story.observed["observer-1"][1]["messages"] *= 2


def an_observer_has_not_seen_everything(story: Story) -> None:
    story.see("observer-2", "life", 99.0)
    story.see("observer-2", "settled", 193.0, whole=False, next=1)


def a_process_ends_that_nobody_struck(story: Story) -> None:
    story.happen("down", 130.0, name="broker", pid=5)


def a_delegator_does_not_get_through(story: Story) -> None:
    story.tell("delegator-2", "life", 100.0)


def a_process_is_left(story: Story) -> None:
    story.left["processes"].append("4711 python -m ether.cluster.node_main node-1")


def a_file_is_left(story: Story) -> None:
    story.left["files"].append("broker.sock")


def a_socket_is_left(story: Story) -> None:
    story.left["sockets"].append("0000: 00000002 /tmp/broker.sock")


def an_outcome_that_such_work_cannot_have(story: Story) -> None:
    story.done("d2", 120.0, status="REJECTED_CONTEXT", code="misfit")


def a_node_is_called_lost_that_was_there(story: Story) -> None:
    story.done("d2", 120.0, status="FAILED_EXECUTION", code="node_lost")


def a_short_pause_is_taken_for_a_loss(story: Story) -> None:
    story.done("d2", 120.0, status="FAILED_EXECUTION", code="node_lost")
    story.strike("node-1", "pause", 119.5, 11)
    story.happen("continue", 120.2, name="node-1", pid=11)


def what_was_refused_has_run(story: Story) -> None:
    story.done("d2", 120.0, status="REJECTED_CAPABILITY", code="agent_gone")
    story.run("node-1", "start", 120.2, id="d2", attempt=1, capability="torture.quick.once", node="node-1", pid=11)


def what_may_run_again_does_not(story: Story) -> None:
    story.strike("node-1", "kill", 119.5, 11)
    story.done("d2", 120.0, word="again", status="FAILED_EXECUTION", code="node_lost")


def a_broker_is_called_unreachable_that_was_there(story: Story) -> None:
    story.ask("d2", 120.0)
    story.tell("delegator-1", "unknown", 132.5, id="d2", status="TIMEOUT", code="broker_unreachable", attempt=1)


BAD: list[tuple[Callable[[Story], None], str]] = [
    (an_outcome_is_never_told, "lost"),
    (two_outcomes_pass, "double"),
    (the_delegator_is_told_two_different_outcomes, "double"),
    (one_life_is_told_the_same_outcome_twice, "double"),
    (the_delegator_is_told_another_outcome_than_passed, "other"),
    (what_the_link_refused_has_passed, "never-left"),
    (progress_comes_out_of_order, "order"),
    (what_must_not_run_twice_runs_twice, "twice"),
    (an_attempt_runs_twice, "attempt"),
    (completed_without_a_run, "invented"),
    (completed_by_a_run_that_raised, "invented"),
    (something_runs_that_nobody_asked_for, "unasked"),
    (an_outcome_passes_after_the_window, "overdue"),
    (a_timeout_passes_before_its_deadline, "early"),
    (the_delegator_is_told_a_timeout_early, "early"),
    (work_is_started_after_its_deadline, "expired"),
    (an_observer_is_not_shown_a_number, "gap"),
    (an_observer_is_shown_a_number_twice, "gap"),
    (an_observer_has_not_seen_everything, "behind"),
    (a_process_ends_that_nobody_struck, "crashed"),
    (a_delegator_does_not_get_through, "unfinished"),
    (a_process_is_left, "orphan"),
    (a_file_is_left, "orphan"),
    (a_socket_is_left, "orphan"),
    (an_outcome_that_such_work_cannot_have, "unexpected"),
    (a_node_is_called_lost_that_was_there, "unfounded"),
    (a_short_pause_is_taken_for_a_loss, "unfounded"),
    (what_was_refused_has_run, "contradicted"),
    (what_may_run_again_does_not, "given-up"),
    (a_broker_is_called_unreachable_that_was_there, "unfounded"),
]


def what_was_accepted_never_ends(story: Story) -> None:
    """Its delegator was killed, so nobody waits for it."""
    story.ask("d2", 120.0)
    story.passes(delegation("d2", 130.0), 120.1)
    story.tell("delegator-1", "life", 140.0)


def an_outcome_is_kept_and_nobody_collects_it(story: Story) -> None:
    what_was_accepted_never_ends(story)
    story.passes(outcome("d2"), 121.0)
    story.run("node-1", "start", 120.2, id="d2", attempt=1, capability="torture.quick.once", node="node-1", pid=11)
    story.run("node-1", "end", 120.9, id="d2", attempt=1, how="returned")


def an_outcome_is_told_that_the_journal_does_not_have(story: Story) -> None:
    story.done("d2", 120.0)
    _forget(story)
    _forget(story)


def what_the_broker_denied_is_in_the_journal(story: Story) -> None:
    story.done("d2", 120.0)
    story.tell("delegator-1", "life", 122.0)
    story.tell("delegator-1", "unheard", 122.4, id="d2")


def what_a_delegator_sent_never_gets_to_the_broker(story: Story) -> None:
    story.ask("d2", 120.0)
    story.tell("delegator-1", "unheard", 122.4, id="d2")


def a_broker_is_called_lost_that_has_a_journal(story: Story) -> None:
    story.strike("broker", "kill", 119.0, 5)
    story.happen("up", 120.5, name="broker", pid=6)
    story.done("d2", 121.0, status="FAILED_EXECUTION", code="broker_lost")


def an_observer_saw_another_message_than_was_kept(story: Story) -> None:
    story.observed["observer-1"][-1]["messages"][0][4] = "forged"


def an_observer_has_another_digest_than_the_journal(story: Story) -> None:
    story.observed["observer-1"][-1]["rolling"] = "forged"


def an_observer_comes_back_and_lacks_a_number(story: Story) -> None:
    before = len(story.observed["observer-1"])
    story.see("observer-1", "life", 119.0, since=3)
    story.done("d2", 120.0)
    del story.observed["observer-1"][before + 1]


def numbers_begin_anew(story: Story) -> None:
    again = {**story.observed["observer-1"][1]}
    story.observed["observer-1"].append(again)


def a_bus_is_not_back_when_its_disk_is(story: Story) -> None:
    story.happen("fault", 110.0, begin=110.0, number=1, fault="fill", seconds=5.0)
    story.happen("mended", 115.0, number=1)
    for number in range(30):
        story.done(f"d{number + 2}", 115.0 + number / 100, took=5.5)


def what_was_refused_without_a_journal_is_in_it(story: Story) -> None:
    story.ask("d2", 120.0)
    story.answer("d2", 120.1, "REJECTED_OVERLOAD", "journal_unavailable")
    story.passes(delegation("d2", 130.0), 121.0)
    story.passes(outcome("d2", "TIMEOUT", "expired"), 130.1)


KEPT: list[tuple[Callable[[Story], None], set[str]]] = [
    (a_bus_is_not_back_when_its_disk_is, {"back"}),
    (what_was_refused_without_a_journal_is_in_it, {"never-left"}),
    (what_was_accepted_never_ends, {"lost"}),
    (an_outcome_is_kept_and_nobody_collects_it, {"uncollected"}),
    (an_outcome_is_told_that_the_journal_does_not_have, {"other"}),
    (what_the_broker_denied_is_in_the_journal, {"never-left"}),
    (what_a_delegator_sent_never_gets_to_the_broker, {"lost"}),
    (a_broker_is_called_lost_that_has_a_journal, {"unfounded"}),
    (an_observer_saw_another_message_than_was_kept, {"faces"}),
    (an_observer_has_another_digest_than_the_journal, {"faces"}),
    (an_observer_comes_back_and_lacks_a_number, {"gap"}),
    (numbers_begin_anew, {"gap", "faces"}),
]


def _forget(story: Story) -> None:
    """Nothing of the last message is left."""
    assert story.journal is not None
    story.journal.pop()
    story.observed["observer-1"].pop()


def _finish(story: Story) -> None:
    for name in set(story.history) - {"delegator-2"}:
        story.tell(name, "finished", 190.0)
    story.see("observer-1", "settled", 192.0, whole=True, next=1)


@pytest.mark.parametrize(("spoil", "rule"), BAD, ids=[spoil.__name__ for spoil, _ in BAD])
def test_the_checker_finds(story: Story, spoil: Callable[[Story], None], rule: str) -> None:
    spoil(story)
    _finish(story)

    assert story.rules() == {rule}


@pytest.mark.parametrize(("spoil", "rules"), KEPT, ids=[spoil.__name__ for spoil, _ in KEPT])
def test_with_a_journal_the_checker_finds(kept: Story, spoil: Callable[[Story], None], rules: set[str]) -> None:
    spoil(kept)
    _finish(kept)

    assert kept.rules() == rules


def test_a_journal_that_was_altered_is_found(kept: Story) -> None:
    _finish(kept)
    kept.write()
    with sqlite3.connect(kept.folder / "journal.db") as database:
        database.execute("UPDATE commits SET time = time + 1.0 WHERE seq = 1")
    database.close()

    assert {violation.rule for violation in check(kept.folder)} == {"chain"}


@pytest.mark.parametrize("durability", get_args(Durability))
def test_the_checker_finds_nothing_in_a_good_history(tmp_path: Path, durability: Durability) -> None:
    story = good(tmp_path, durability)
    story.done("d2", 120.0, status="TIMEOUT", code="deadline", took=10.2)
    story.see("observer-1", "life", 139.0)
    story.done("d3", 140.0, status="FAILED_EXECUTION", code="exception")
    story.end()

    assert story.rules() == set()


def test_every_rule_has_a_bad_history(tmp_path: Path) -> None:
    found = set()
    for spoils, durability in ((BAD, "memory"), (KEPT, "journal")):
        for spoil, _ in spoils:
            story = good(tmp_path / spoil.__name__, durability)
            spoil(story)
            _finish(story)
            story.write()
            evidence = read_evidence(story.folder)
            found |= {rule.__name__ for rule in RULES if list(rule(evidence))}

    assert found | {"chain"} == {rule.__name__ for rule in RULES}  # the chain has a test of its own


def test_what_a_killed_life_asked_is_unknown_and_not_lost(story: Story) -> None:
    an_outcome_is_never_told(story)
    story.strike("delegator-1", "kill", 121.0, 21)
    story.tell("delegator-1", "life", 123.0)
    story.end()

    assert story.rules() == set()


def test_what_its_delegator_gave_up_need_not_get_to_the_broker(kept: Story) -> None:
    kept.strike("broker", "kill", 119.0, 5)
    kept.happen("up", 135.0, name="broker", pid=6)
    kept.ask("d2", 120.0)
    kept.tell("delegator-1", "unknown", 132.5, id="d2", status="TIMEOUT", code="broker_unreachable", attempt=1)
    kept.tell("delegator-1", "unheard", 140.0, id="d2")
    kept.end()

    assert kept.rules() == set()


@pytest.mark.parametrize(("action", "found"), [("restart", set()), ("kill", {"given-up"})])
def test_what_waits_to_be_run_again_may_end_when_its_agent_leaves(story: Story, action: str, found: set[str]) -> None:
    story.done("d2", 120.0, word="again", status="FAILED_EXECUTION", code="node_lost", attempt=2)
    story.strike("node-1", "kill", 119.5, 11)
    story.happen("up", 119.8, name="node-1", pid=12)
    story.strike("node-1", action, 120.2, 12)
    story.happen("up", 120.9, name="node-1", pid=13)
    story.end()

    assert story.rules() == found


def test_an_outcome_may_be_collected_by_another_life(kept: Story) -> None:
    an_outcome_is_kept_and_nobody_collects_it(kept)
    kept.answer("d2", 141.0, collected=True)
    kept.end()

    assert kept.rules() == set()


def test_a_timeout_may_be_as_late_as_the_broker_was_stopped(story: Story) -> None:
    story.done("d2", 120.0, status="TIMEOUT", code="deadline", took=12.4)
    story.strike("broker", "pause", 129.0, 5)
    story.happen("continue", 132.3, name="broker", pid=5)
    story.end()

    assert story.rules() == set()


def test_a_timeout_may_not_be_later_than_the_broker_was_stopped(story: Story) -> None:
    story.done("d2", 120.0, status="TIMEOUT", code="deadline", took=12.4)
    story.strike("broker", "pause", 129.0, 5)
    story.happen("continue", 131.0, name="broker", pid=5)
    story.end()

    assert story.rules() == {"overdue"}


def test_what_reaches_the_broker_after_its_deadline_ends_there_and_then(story: Story) -> None:
    story.ask("d2", 120.0, timeout=1.0)
    story.passes(delegation("d2", 121.0), 124.0)
    story.passes(outcome("d2", "TIMEOUT", "expired"), 124.0)
    story.answer("d2", 124.1, "TIMEOUT", "expired")
    story.end()

    assert story.rules() == set()


def test_a_bus_has_five_seconds_and_may_refuse_work_until_then(kept: Story) -> None:
    kept.happen("fault", 110.0, begin=110.0, number=1, fault="fill", seconds=5.0)
    kept.happen("mended", 115.0, number=1)
    kept.ask("refused", 112.0)
    kept.answer("refused", 112.1, "REJECTED_OVERLOAD", "journal_unavailable")
    for number in range(30):
        kept.done(f"d{number + 2}", 115.0 + number / 100, took=4.5)
    _finish(kept)

    assert kept.rules() == set()


def test_a_broker_that_is_stopped_all_the_time_is_not_back_before(kept: Story) -> None:
    kept.strike("broker", "pause", 105.0, 5)
    kept.happen("fault", 110.0, begin=110.0, number=1, fault="protect", seconds=5.0)
    kept.happen("mended", 115.0, number=1)
    kept.happen("continue", 124.0, name="broker", pid=5)
    kept.happen("fault", 123.0, begin=123.0, number=2, fault="fail", seconds=3.0)
    kept.happen("mended", 126.0, number=2)
    for number in range(30):
        kept.done(f"d{number + 2}", 115.0 + number / 100, took=12.0)
    _finish(kept)

    assert "back" not in kept.rules()


def test_what_the_broker_could_not_write_may_reach_its_delegator_too_late(kept: Story) -> None:
    kept.happen("fault", 105.0, begin=105.0, number=1, fault="lock", seconds=20.0)
    kept.happen("mended", 125.0, number=1)
    kept.ask("d2", 104.0)
    kept.tell(
        "delegator-1", "unknown", 116.0, id="d2", status="TIMEOUT", code="journal_unavailable", mark="", attempt=1
    )
    _finish(kept)

    assert not kept.rules() & {"unfounded", "never-left", "unexpected"}


@pytest.mark.parametrize(("begin", "end", "found"), [(115.0, 119.0, {"unfounded"}), (127.0, 131.0, set())])
@pytest.mark.parametrize("is_disk", [False, True])
def test_only_what_kept_a_broker_near_the_deadline_makes_it_unreachable(
    story: Story, begin: float, end: float, found: set[str], is_disk: bool
) -> None:
    story.ask("d2", 120.0)
    story.tell("delegator-1", "unknown", 132.5, id="d2", status="TIMEOUT", code="broker_unreachable", attempt=1)
    if is_disk:
        story.happen("fault", begin, begin=begin, number=1, fault="lock", seconds=end - begin)
        story.happen("mended", end, number=1)
    else:
        story.strike("broker", "pause", begin, 5)
        story.happen("continue", end, name="broker", pid=5)
    story.end()

    assert story.rules() == found


def test_a_lost_node_is_a_reason_for_node_lost_and_for_another_run(story: Story) -> None:
    story.done("d2", 120.0, status="FAILED_EXECUTION", code="node_lost")
    story.strike("node-1", "kill", 119.5, 11)
    story.happen("down", 119.6, name="node-1", pid=11)
    story.happen("up", 121.0, name="node-1", pid=12)
    story.done("d3", 130.0, word="again")
    story.run("node-2", "start", 130.2, id="d3", attempt=2, capability="torture.quick.again", node="node-2", pid=13)
    story.end()

    assert story.rules() == set()


def test_a_gap_of_which_the_observer_was_told_is_none(story: Story) -> None:
    an_observer_is_not_shown_a_number(story)
    last = story.observed["observer-1"].pop()
    story.see("observer-1", "gap", last["at"], first=2, last=3)
    story.observed["observer-1"].append(last)
    story.end()

    assert story.rules() == set()


def test_without_a_journal_a_new_broker_counts_anew(story: Story) -> None:
    story.observed["observer-1"].append({**story.observed["observer-1"][1], "messages": [], "next": 1})
    story.end()

    assert story.rules() == set()


def test_a_line_that_a_kill_has_torn_is_left_out(story: Story) -> None:
    story.end()
    story.write()
    with (story.folder / "history" / "delegator-1.jsonl").open("ab") as file:
        file.write(b'{"event":"invoke","id":"d7"')

    assert check(story.folder) == ()


def test_a_folder_of_no_campaign_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"campaign\.json is missing"):
        check(tmp_path)
