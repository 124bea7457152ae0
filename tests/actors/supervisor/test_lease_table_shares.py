"""Leases of delegations that have ended go on to others a share a step, and their holder's node pays: counted, not timed."""

from __future__ import annotations

from typing import Final

import pytest

from ether_actors.supervisor.capabilities.lease_service import RELEASED_PER_STEP
from ether_broker.envelope.payload import pack
from ether_broker.envelope.status import Status
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.wire.frame import Flag, Kind
from tests.actors.peers import request_id
from tests.actors.supervisor.test_shares import CountedWorld

FEW: Final = 2 * RELEASED_PER_STEP
MANY: Final = 8 * FEW
MOST: Final = RELEASED_PER_STEP + RELEASED_PER_STEP // 2
"""Of a step: what is done at once, and `LeaseService.serve`."""
HOLDERS: Final = 8
AGENTS: Final = [f"a{number}" for number in range(HOLDERS)]


class Leased(CountedWorld):
    """A node `w` whose agents each work on a delegation of `d`'s, and hold or wait for leases for it."""

    def __init__(self, **registration: object) -> None:
        super().__init__(*AGENTS, limits=Limits(window=8), **registration)
        self.work = {name: self.give(1, to=name)[0] for name in AGENTS}
        self.told: list[int] = []
        """Leases that each step released, and claims that it ended."""

    def hold(self, name: str, *resources: str, **params: object) -> list[int]:
        return [
            self.w.delegate(
                name, "ether.lease", parent=self.work[name], params={"resource": resource, **params}, timeout=600.0
            )
            for resource in resources
        ]  # fmt: skip

    def step(self) -> None:
        before, claims = len(self.bus.events("lease_released")), len(self.bus.state.bus.work)
        super().step()
        ended = claims - len(self.bus.state.bus.work)
        self.told.append(len(self.bus.events("lease_released")) - before + max(0, ended))

    def held(self) -> int:
        return len(list(self.bus.state.leases.after(0)))


def leased(count: int) -> Leased:
    world = Leased()
    for name in AGENTS:
        world.hold(name, *(f"{name}/{number}" for number in range(count // HOLDERS)))
    world.bus.step()
    assert world.held() == count
    return world


def test_what_a_step_releases_is_a_share_however_many_leases_end_at_once() -> None:
    worlds = [leased(count) for count in (FEW, MANY)]
    for world in worlds:
        for name in AGENTS:
            world.d.cancel("d", world.work[name])
        world.run()

        assert world.held() == 0
        assert max(world.told) <= MOST
    few, many = worlds
    assert len(many.costs) >= MANY // MOST
    assert max(many.costs) <= 1.5 * max(few.costs)


def test_the_node_of_the_holder_pays_for_the_release_and_who_called_it_off_does_not() -> None:
    world = leased(MANY)
    w, d = world.w.session.input, world.d.session.input
    before = w.tag
    world.d.cancel("d", world.work["a0"])
    world.step()

    assert w.tag - before >= MANY // HOLDERS
    assert w.tag - d.tag >= MANY // HOLDERS - RELEASED_PER_STEP // 2  # which begins where those are who wait


def test_a_lease_whose_holder_has_ended_is_nobodys_until_the_next_in_line_has_it() -> None:
    # Given a1 waits for the last of a0's leases
    world = Leased()
    last = "r899"
    world.hold("a0", *(f"r{number}" for number in range(900)))
    world.bus.step()
    (claim,) = world.hold("a1", last)
    world.bus.step()
    world.w.took(Kind.RESPONSE)
    token = world.bus.state.leases.holder(last).token  # type: ignore[union-attr]

    # When a0's delegation has ended
    world.d.cancel("d", world.work["a0"])
    world.step()

    # Then it is not listed, cannot be released or taken for that delegation, and is a1's at the end
    assert world.bus.state.leases.holder(last) is not None
    asked = world.w.delegate("a0", "ether.leases", params={"resource": last})
    released = world.w.delegate("a0", "ether.release", parent=world.work["a0"], params={"token": token})
    claimed = world.hold("a0", "another")
    world.step()
    answers = {got.number: got for got in world.w.took(Kind.RESPONSE)}
    assert pack({"items": []})[1:] in answers[asked].envelope
    assert {answers[released].status, answers[claimed[0]].status} <= {Status.CANCELLED, Status.REJECTED_CONTEXT}
    assert claim not in answers
    world.run()
    assert world.held() == 1
    assert [got.number for got in world.w.took(Kind.RESPONSE) if got.status is Status.COMPLETED] == [claim]
    assert world.bus.state.leases.holder(last).holder == request_id(world.work["a1"])  # type: ignore[union-attr]


def test_claims_that_are_late_when_the_holder_ends_are_ended_a_share_a_step_and_one_in_time_gets_the_lease() -> None:
    world = Leased()
    world.hold("a0", "r")
    world.bus.step()
    for name in AGENTS[1:7]:
        world.hold(name, *["r"] * RELEASED_PER_STEP, wait=5.02)
    last = world.hold("a7", "r", wait=60.0)
    world.bus.step()
    world.w.took(Kind.RESPONSE)
    world.bus.now += 5.03

    world.d.cancel("d", world.work["a0"])
    world.step()
    assert [got.number for got in world.w.took(Kind.RESPONSE) if got.status is Status.COMPLETED] == last
    world.bus.now += 0.1
    world.run()

    assert max(world.told) <= 2 * MOST
    assert {got.status for got in world.w.took(Kind.RESPONSE)} == {Status.TIMEOUT}
    assert world.bus.state.leases.holder("r").holder == request_id(world.work["a7"])  # type: ignore[union-attr]


@pytest.mark.parametrize("flag", [Flag.NONE, Flag.HANDED_BACK])
def test_work_that_is_given_again_has_nothing_of_its_last_run_and_its_node_pays(flag: Flag) -> None:
    world = Leased(idempotent=True)
    world.hold("a0", *(f"r{number}" for number in range(FEW)))
    world.bus.step()
    before = world.w.session.input.tag
    if flag:
        world.w.respond("a0", world.work["a0"], Status.CANCELLED, flags=flag)
    else:
        world.w.send(Kind.UNREGISTER, source=b"a0", body={"condition": "gone"})
    world.step()

    assert world.held() == 0
    assert world.bus.state.leases.stakes == {}
    assert world.w.session.input.tag - before >= FEW
