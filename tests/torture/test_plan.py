"""The plan is the seed's, and so is the work; both keep to what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.lab.torture.fault_plan import BROKER, Action, delegator_names, make_plan, node_names, observer_names
from ether.lab.torture.settings import TortureSettings, Victim
from ether.lab.torture.workload import IDEMPOTENT, make_job
from ether_broker.errors import UsageError

SEEDS = st.integers(0, 1 << 32)


@given(seed=SEEDS)
def test_a_seed_makes_one_plan(seed: int) -> None:
    assert make_plan(TortureSettings(seed=seed)) == make_plan(TortureSettings(seed=seed))


def test_another_seed_makes_another_plan() -> None:
    assert make_plan(TortureSettings(seed=1)) != make_plan(TortureSettings(seed=2))


@given(
    seed=SEEDS, nodes=st.integers(1, 5), kills=st.integers(0, 60), seconds=st.floats(0.1, 1e4),
    victims=st.sets(st.sampled_from(list(Victim)), min_size=1),
)  # fmt: skip
def test_a_plan_strikes_who_is_there_when_it_was_asked_to(
    seed: int, nodes: int, kills: int, seconds: float, victims: set[Victim]
) -> None:
    settings = TortureSettings(seed=seed, nodes=nodes, kills=kills, seconds=seconds, victims=tuple(victims))
    there = {BROKER, *node_names(settings), *delegator_names(settings), *observer_names(settings)}

    plan = make_plan(settings)

    assert len(plan) == kills
    assert [strike.number for strike in plan] == list(range(1, kills + 1))
    assert [strike.at for strike in plan] == sorted(strike.at for strike in plan)
    for strike in plan:
        assert 0 <= strike.at <= seconds
        assert strike.victim in victims
        assert there.issuperset(strike.names)
        longest = 20.0 if strike.victim is Victim.BROKER else 6.0
        assert (0.2 <= strike.seconds <= longest) if strike.action is Action.PAUSE else strike.seconds == 0.0


def test_a_long_plan_has_every_victim_and_every_action() -> None:
    plan = make_plan(TortureSettings(seed=1, kills=200))

    assert {strike.victim for strike in plan} == set(Victim)
    assert {strike.action for strike in plan} == set(Action)


@given(seed=SEEDS, index=st.integers(0, 1 << 20))
def test_a_job_is_the_same_whichever_life_asks_for_it(seed: int, index: int) -> None:
    assert make_job(seed, "delegator-1", index) == make_job(seed, "delegator-1", index)


def test_the_work_has_both_kinds_of_runs_and_calls_and_deadlines() -> None:
    jobs = [make_job(1, "delegator-1", index) for index in range(500)]

    assert {job.capability.endswith(IDEMPOTENT) for job in jobs} == {True, False}
    assert {job.capability.split(".")[1] for job in jobs} == {"quick", "slow", "tree"}
    assert any(job.cancel_after for job in jobs)
    assert any(job.params["seconds"] > job.timeout for job in jobs)
    assert any(job.params.get("fails") for job in jobs)
    assert any(job.params.get("steps") for job in jobs)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"delegations": 0}, "delegations=0"),
        ({"nodes": 0}, "nodes=0"),
        ({"delegators": -1}, "delegators=-1"),
        ({"observers": -1}, "observers=-1"),
        ({"transport": "udp"}, "Input should be 'ipc' or 'tcp'"),
        ({"seconds": -1.0}, "seconds=-1.0: Input should be greater than or equal to 0"),
        ({"victims": ()}, "There is no victim"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused_by_name(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TortureSettings(**wrong)  # type: ignore[arg-type]


def test_what_is_not_said_follows_from_the_rest() -> None:
    assert (TortureSettings(delegations=20_000).seconds, TortureSettings(delegations=20_000).kills) == (200.0, 100)
    assert TortureSettings(delegations=10).seconds == 10.0
    assert TortureSettings(kills=0, victims=()).kills == 0
