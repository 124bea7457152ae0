"""What a journal tells: the fold over envelopes, its checkpoint, and that it agrees with the supervisor that wrote them."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ether_actors.supervisor.journal.history import History
from ether_broker.envelope.ids import to_text
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.errors import JournalCorrupt
from ether_broker.wire.frame import Flag, Kind, mark, pack_envelope
from tests.actors.fold import differences
from tests.actors.peers import Bus, request_id, uncollected

WALL, CLOCK = 1e9, 50.0


def delegation(number: int, *, target: bytes = b"a", capability: bytes = b"x.y") -> bytes:
    return pack_envelope(
        Kind.DELEGATION, request_id=request_id(number), source=b"d", target=target, capability=capability, deadline=60.0
    )  # fmt: skip


def response(
    number: int, status: int = Status.COMPLETED, *, source: bytes = b"a", capability: bytes = b"x.y"
) -> bytes:  # fmt: skip
    return pack_envelope(
        Kind.RESPONSE, request_id=request_id(number), source=source, target=b"d", status=status, capability=capability
    )  # fmt: skip


def event(name: str, **fields: Any) -> bytes:
    return pack_envelope(
        Kind.EVENT, request_id=request_id(10**6), source=b"ether", body=pack({"event": name, **fields})
    )


def agent_up(name: str = "a", node: str = "n", incarnation: bytes = b"1" * 16, **more: Any) -> bytes:
    fields = {"manifest": pack({}), **more}
    return event("agent_up", agent=name, node=node, version="", incarnation=incarnation, **fields)


def reassigned(number: int, agent: str, attempt: int = 2) -> bytes:
    return event(
        "reassigned", request_id=to_text(request_id(number)), agent=agent, capability="x.z", attempt=attempt
    )  # fmt: skip


def told(*steps: list[bytes]) -> History:
    """The history of these steps, ten seconds apart."""
    history = History()
    for turn, envelopes in enumerate(steps):
        history.apply(history.next, CLOCK + 10 * turn, WALL + 10 * turn, envelopes)
    return history


# -- delegations -------------------------------------------------------------------------------------------------


def test_what_was_accepted_is_open_until_its_outcome_oldest_first():
    history = told([delegation(1), delegation(2)], [delegation(3)], [response(2)])

    assert list(history.open) == [request_id(1), request_id(3)]
    assert history.open[request_id(3)].envelope == delegation(3)
    assert history.open[request_id(3)].clock == CLOCK + 10
    assert (history.clock, history.wall) == (CLOCK + 20, WALL + 20)
    assert history.ended.get(request_id(2)) == (b"a", b"d", 4, None)
    assert history.next == 5


@pytest.mark.parametrize("is_packed", [False, True])
def test_who_asked_is_the_process_that_the_delegator_was_in_then(*, is_packed: bool):
    ups = [agent_up("d", node, bytes([number]) * 16) for number, node in enumerate("kmn", 1)]
    history = told([ups[0], delegation(1), delegation(2)], [ups[1], delegation(3)], [response(1)])
    if is_packed:
        history = History.of(history.pack())
    history.apply(history.next, CLOCK, WALL, [ups[2], delegation(4), response(2), response(4)])

    lives = [("k", b"\1" * 16), ("m", b"\2" * 16), ("n", b"\3" * 16)]
    assert history.open[request_id(3)].asked_from == lives[1]
    endings = [history.ended.get(request_id(number)) for number in (1, 2, 4)]
    assert [None if ending is None else ending.asked_from for ending in endings] == [lives[0], lives[0], lives[2]]


def test_a_checkpoint_of_an_older_ether_does_not_say_who_asked():
    older = unpack(full().pack())
    del older["asked_from"], older["ended"]["asked_from"]

    history = History.of(pack(older))

    assert {work.asked_from for work in history.open.values()} == {None}
    ending = history.ended.get(request_id(1))
    assert ending is not None
    assert ending.asked_from is None


@pytest.mark.parametrize("status", [Status.ACCEPTED, Status.PROGRESS])
def test_what_its_specialist_has_begun_runs(status: Status):
    history = told([delegation(1), delegation(2)], [response(1, status)])

    assert [work.is_running for work in history.open.values()] == [True, False]


def test_what_was_refused_leaves_a_refusal():
    refusal = response(1, Status.REJECTED_CAPABILITY, source=b"ether")
    history = told([delegation(1), event("dead_letter", number=1), refusal])

    assert (history.open, history.ended.get(request_id(1))) == ({}, (b"ether", b"d", 3, None))


def test_what_the_bus_was_asked_of_itself_leaves_nothing_to_collect():
    history = told(
        [delegation(1, capability=b"ether.agents"), response(1, source=b"ether", capability=b"ether.agents")]
    )

    history.ended.restarted()

    assert (history.open, history.ended.get(request_id(1)).source) == ({}, b"")
    assert request_id(1) not in history.ended.uncollected


def test_an_outcome_that_its_delegator_was_not_there_for_is_uncollected_until_it_is_collected():
    history = told([delegation(1), delegation(2), delegation(3)], [mark(response(1), Flag.UNCOLLECTED), response(2)])
    history.apply(
        history.next, CLOCK, WALL, [response(3), event("outcomes_unread", outcomes=[[request_id(3), b"d"]])]
    )  # fmt: skip
    assert uncollected(history.ended, b"d") == [request_id(1), request_id(3)]

    history.apply(history.next, CLOCK, WALL, [event("outcomes_collected", outcomes=[request_id(1)])])

    assert uncollected(history.ended, b"d") == [request_id(3)]


def test_after_a_restart_nobody_knows_what_was_collected():
    history = told([delegation(1), delegation(2)], [response(2), response(1)])

    history.ended.restarted()

    assert uncollected(history.ended, b"d") == [request_id(2), request_id(1)]


def test_an_outcome_of_what_is_not_known_changes_nothing():
    history = told([response(1), response(2, Status.PROGRESS)])

    assert history.open == {}
    assert request_id(1) not in history.ended


def test_what_was_given_to_another_is_with_that_one_and_not_begun():
    history = told([agent_up("a"), agent_up("b"), delegation(1)], [response(1, Status.ACCEPTED)], [reassigned(1, "b")])

    work = history.open[request_id(1)]
    assert (work.agent, work.capability, work.attempt, work.is_running) == (b"b", b"x.z", 2, False)


def test_what_has_ended_is_remembered_for_a_while():
    history = History(remembered=10)
    for number in range(1, 26):
        history.apply(history.next, CLOCK, WALL, [delegation(number)])
        history.apply(history.next, CLOCK, WALL, [response(number)])

    known = [number for number in range(1, 26) if request_id(number) in history.ended]
    assert known == list(range(11, 26))
    assert history.ended.has_dropped
    assert History.of(history.pack(), remembered=10).ended.pack() == history.ended.pack()


# -- agents and leases -------------------------------------------------------------------------------------------


def test_an_agent_is_there_until_it_leaves_and_down_while_its_node_is_lost():
    history = told([agent_up("a"), agent_up("b"), agent_up("c")])
    lost = event("agent_down", agent="a", node="n", reason="node_lost")
    left = event("agent_down", agent="b", node="n", reason="left")
    unknown = event("agent_down", agent="z", node="n", reason="left")
    history.apply(history.next, CLOCK, WALL, [lost, left, unknown])

    assert {name: agent.is_down for name, agent in history.agents.items()} == {"a": True, "c": False}


def test_an_agent_that_comes_back_has_a_new_incarnation():
    lost = event("agent_down", agent="a", node="n", reason="node_lost")
    history = told([agent_up("a")], [lost], [agent_up("a", "m", b"2" * 16)])

    agent = history.agents["a"]
    assert (agent.node, agent.incarnation, agent.is_down) == ("m", b"2" * 16, False)


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_agent_scales_as_it_registered_last_and_has_places_only_if_it_never_registered_otherwise(*, is_packed: bool):
    def scaling(*before: bytes) -> tuple[bool, bool]:
        history = told([delegation(1)], *([up] for up in before))
        if is_packed:
            history = History.of(history.pack())
        return history.agents["a"].scales, history.agents["a"].was_another

    other = agent_up(scales=True, manifest=pack({"max_concurrency": 2}))
    assert scaling(agent_up()) == (False, False)
    assert scaling(agent_up(scales=True)) == (True, False)
    assert scaling(agent_up(scales=True), agent_up(scales=True)) == (True, False)
    assert scaling(agent_up(scales=True), agent_up()) == (False, False)
    assert scaling(agent_up(), agent_up(scales=True)) == (True, True)
    assert scaling(agent_up(scales=True), other) == (True, True)
    assert scaling(other, agent_up(scales=True), agent_up(scales=True)) == (True, True)


def test_a_checkpoint_of_an_older_ether_says_of_no_agent_that_it_scales():
    history = told([agent_up(scales=True)])
    older = unpack(history.pack())
    del older["scaling"]

    assert [agent.scales for agent in History.of(pack(older)).agents.values()] == [False]


def test_an_agent_that_was_down_too_long_is_forgotten():
    lost = event("agent_down", agent="a", node="n", reason="node_lost")
    history = told([agent_up("a")], [lost], [event("agent_forgotten", agent="a")])

    assert history.agents == {}


def test_an_agent_that_leaves_does_so_until_it_has_left_or_registers_again():
    leaving = event("agent_leaving", agent="a", node="n", reason="tired")
    unknown = event("agent_leaving", agent="z", node="n", reason="tired")
    history = told([agent_up("a"), agent_up("b")], [leaving, unknown])
    again = History.of(history.pack())

    for one in (history, again):
        assert one.leaving() == {"a": "tired"}
        one.apply(one.next, CLOCK, WALL, [event("agent_down", agent="a", node="n", reason="tired")])
        assert (one.leaving(), list(one.agents)) == ({}, ["b"])
        one.apply(one.next, CLOCK, WALL, [agent_up("a")])
        assert one.leaving() == {}


@pytest.mark.parametrize("is_packed", [False, True])
def test_with_a_node_those_leave_that_it_had_when_it_said_so(*, is_packed: bool):
    tired = event("agent_leaving", agent="c", node="n", reason="tired")
    history = told([agent_up("a"), agent_up("other", "m", b"2" * 16), agent_up("c"), tired])
    history.apply(history.next, CLOCK, WALL, [agent_up("b"), event("node_leaving", node="n", incarnation=b"1" * 16)])
    history = History.of(history.pack()) if is_packed else history
    history.apply(history.next, CLOCK, WALL, [event("agent_down", agent="a", node="n", reason="left")])
    history.apply(history.next, CLOCK, WALL, [agent_up("a"), agent_up("later")])

    assert history.leaving() == {"b": "left", "c": "tired"}


def granted(token: int, agent: str) -> bytes:
    return event("lease_granted", resource="f", token=token, agent=agent, request_id=to_text(request_id(9)))


def test_a_lease_is_with_its_last_holder_until_its_release_and_no_token_comes_again():
    history = told([granted(2, "b"), granted(3, "a")])
    history.apply(history.next, CLOCK, WALL, [event("lease_released", resource="f", token=2)])
    assert history.leases == {"f": ("a", request_id(9), 3)}

    history.apply(history.next, CLOCK, WALL, [event("lease_released", resource="f", token=3)])

    assert (history.leases, history.token) == ({}, 3)


# -- what is not a broker's --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "envelope",
    [
        b"",
        b"\x04",
        delegation(1)[:20],
        event("agent_up", agent="a"),
        event("agent_up", agent=["a"], manifest=b"", node="n", incarnation=b""),
        event("agent_down"),
        event("agent_leaving"),
        event("node_leaving", node="n"),
        event("agent_forgotten"),
        event("outcomes_unread", outcomes=[7]),
        event("outcomes_collected"),
        event("reassigned", request_id="no uuid", agent="a", capability="x", attempt=2),
        event("reassigned", request_id=7, agent="a", capability="x", attempt=2),
        event("lease_released"),
        pack_envelope(Kind.EVENT, body=pack(["event"])),
        pack_envelope(Kind.EVENT, body=b"\xc1"),
        pack_envelope(Kind.EVENT),
    ],
    ids=["empty", "one byte", "cut", "no manifest", "a list for a name", "no agent", "nobody leaves", "no incarnation",
         "nobody", "no pair",
         "no outcomes", "no id", "a number for an id",
         "no resource", "a list", "no msgpack", "no body"],
)  # fmt: skip
def test_an_envelope_that_is_not_a_brokers_is_a_corrupt_journal(envelope: bytes):
    history = told([delegation(1)])

    with pytest.raises(JournalCorrupt, match="not what a broker writes"):
        history.apply(history.next, CLOCK, WALL, [envelope])


def test_a_checkpoint_of_version_1_is_brought_forward():
    state = {
        "version": 1, "next": 7, "token": 3,
        "open": [[delegation(1), WALL, CLOCK, b"b", b"x.z", 2, True]],
        "agents": [["a", b"\x80", "n", b"1" * 16, False, False], ["b", b"\x80", "m", b"2" * 16, True, True]],
        "ended": [[request_id(2), b"a"], [request_id(3), b"ether"]],
        "uncollected": [[request_id(2), b"d"]],
        "leases": [["f", "a", request_id(9), 3]],
    }  # fmt: skip

    history = History.of(pack(state))

    work = history.open[request_id(1)]
    assert (work.clock, work.agent, work.capability, work.attempt, work.is_running) == (CLOCK, b"b", b"x.z", 2, True)
    assert {name: agent.is_down for name, agent in history.agents.items()} == {"a": False, "b": True}
    assert history.ended.get(request_id(2)) == (b"a", b"d", 0, None)
    assert uncollected(history.ended, b"d") == [request_id(2)]
    assert request_id(3) in history.ended
    assert (history.next, history.token, history.leases) == (7, 3, {"f": ("a", request_id(9), 3)})
    assert (history.boot, history.clock, history.wall) == ("", CLOCK, WALL)


@pytest.mark.parametrize("has_makers", [True, False])
def test_a_checkpoint_tells_what_may_be_among_the_endings_that_are_forgotten(has_makers: bool):
    history = History(remembered=2)
    ids = [(at << 80 | 7 << 76 | maker).to_bytes(16) for at, maker in ((10, 1), (99, 2), (11, 1), (12, 1), (13, 1))]
    for id_ in ids:
        asked = pack_envelope(Kind.DELEGATION, request_id=id_, source=b"d", target=b"a")
        told_of = pack_envelope(Kind.RESPONSE, request_id=id_, source=b"a", target=b"d", status=Status.COMPLETED)
        history.apply(history.next, CLOCK, WALL, [asked, told_of])
    state = unpack(history.pack())
    if not has_makers:
        del state["ended"]["highest"]

    ended = History.of(pack(state), remembered=2).ended

    later = (14 << 80 | 7 << 76 | 1).to_bytes(16)
    assert ids[0] not in ended
    assert all(ended.may_know(id_) for id_ in ids)
    assert ended.may_know(later) is not has_makers, "by the highest of all there are one, by that of its process not"


def test_a_checkpoint_of_another_version_says_what_to_do():
    with pytest.raises(JournalCorrupt, match="agent-ether that wrote it"):
        History.of(pack({"version": 99}))


@given(st.data())
@settings(max_examples=300)
def test_a_mutated_checkpoint_is_read_or_corrupt(data: st.DataObject):
    whole = bytearray(full().pack())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(JournalCorrupt):
        History.of(bytes(whole))


@pytest.mark.parametrize(
    "field", ["next", "token", "open", "agents", "leaving", "scaling", "ended", "leases", "asked_from"]
)
@pytest.mark.parametrize("value", [None, 7, "text", [7], [[7]], [["x", "y"]], {"a": 1}])
def test_a_checkpoint_with_a_field_of_another_kind_is_corrupt(field: str, value: object):
    state = unpack(full().pack())
    if (field in {"next", "token"} and value == 7) or (field == "asked_from" and value is None):
        pytest.skip("it may be that")
    with pytest.raises(JournalCorrupt):
        History.of(pack({**state, field: value}))


def test_bytes_that_are_no_checkpoint_are_corrupt():
    for body in (b"", b"\xc1", pack([1]), pack(None), pack({})):
        with pytest.raises(JournalCorrupt):
            History.of(body)


def full() -> History:
    """A history with something of everything."""
    return told(
        [agent_up("d", "k", b"3" * 16)],
        [agent_up("a"), agent_up("b", "m", b"2" * 16), delegation(1), delegation(2), delegation(3), delegation(4)],
        [response(1), response(2, Status.PROGRESS), reassigned(3, "b")],
        [event("agent_down", agent="b", node="m", reason="node_lost"), granted(3, "a")],
        [event("agent_leaving", agent="a", node="n", reason="tired")],
        [delegation(5), response(5, Status.REJECTED_OVERLOAD, source=b"ether")],
    )


def equal(one: History, other: History) -> bool:
    return all(
        getattr(one, name) == getattr(other, name) for name in ("next", "open", "agents", "leases", "token")
    ) and (list(one.open), one.ended.pack()) == (list(other.open), other.ended.pack())


def test_a_checkpoint_reads_as_it_was_packed_and_the_rest_of_the_journal_continues_it():
    history = full()
    again = History.of(history.pack())
    assert equal(history, again)
    for one in (history, again):
        one.apply(one.next, CLOCK, WALL, [response(2), delegation(6), agent_up("b")])

    assert equal(history, again)
    assert dataclasses.asdict(again.agents["b"])["is_down"] is False


# -- against the supervisor --------------------------------------------------------------------------------------


def test_a_bus_writes_what_its_history_reads():
    """The whole of random runs is compared in test_supervisor_stateful."""
    bus = Bus()
    d, a = bus.delegator("d"), bus.node("na", "a", "b")
    first, second = d.delegate("d", to="a"), d.delegate("d", to="b")
    bus.step()
    a.respond("a", first, Status.PROGRESS)
    a.respond("b", second)
    bus.step()

    history = bus.history
    assert list(history.open) == [request_id(first)]
    assert history.open[request_id(first)].is_running
    assert history.ended.get(request_id(second)).by == b"b"
    assert differences(bus.supervisor, history) == []
    assert list(history.agents) == ["d", "a", "b"]
    assert history.next == bus.state.tap.next
