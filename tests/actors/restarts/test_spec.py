from __future__ import annotations

import copy
import math
import pickle
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether_actors.backoff import Backoff
from ether_actors.restarts.supervisor_spec import ChildSpec, Restart, Strategy, SupervisorSpec
from ether_broker.errors import EtherError, InvalidSpec


class Agent:
    pass


def test_a_child_is_permanent_and_has_five_seconds_to_stop_unless_it_says_otherwise() -> None:
    spec = ChildSpec("a", Agent)

    assert (spec.args, spec.kwargs, spec.restart, spec.shutdown) == ((), {}, Restart.PERMANENT, 5.0)


def test_a_supervisor_is_one_for_one_and_bears_three_restarts_in_five_seconds_unless_it_says_otherwise() -> None:
    spec = SupervisorSpec("s")

    assert (spec.strategy, spec.intensity, spec.period) == (Strategy.ONE_FOR_ONE, 3, 5.0)
    assert (spec.children, spec.restart, spec.backoff) == ((), Restart.PERMANENT, Backoff())


def test_the_words_and_lists_of_a_file_become_what_the_fields_promise() -> None:
    read: dict[str, Any] = {"strategy": "rest_for_one", "restart": "transient"}
    child = ChildSpec("a", "agents.writers:Outline.Short", args=[1], restart="temporary")  # type: ignore[arg-type]
    spec = SupervisorSpec("s", children=[child], **read)  # type: ignore[arg-type]

    assert (spec.strategy, spec.restart) == (Strategy.REST_FOR_ONE, Restart.TRANSIENT)
    assert (child.args, child.restart) == ((1,), Restart.TEMPORARY)
    assert spec.children == (child,)


def test_a_spec_keeps_what_it_was_given_when_the_caller_changes_it_later() -> None:
    kwargs, args = {"depth": 1}, [1]
    spec = ChildSpec("a", Agent, args, kwargs)  # type: ignore[arg-type]

    kwargs["depth"] = 2
    args.append(2)

    assert (spec.kwargs, spec.args) == ({"depth": 1}, (1,))


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ChildSpec("a", Agent).id = "b"  # type: ignore[misc]


def test_a_spec_travels_to_another_process_and_back() -> None:
    spec = SupervisorSpec("s", children=(ChildSpec("a", Agent, kwargs={"depth": 1}), SupervisorSpec("t")))

    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ChildSpec("", Agent), "A child has the id ''; give it a name"),
        (lambda: ChildSpec(3, Agent), "A child has the id 3"),  # type: ignore[arg-type]
        (lambda: SupervisorSpec(" "), "A supervisor has the id ' '"),
        (lambda: ChildSpec("a", 3), "Child 'a': start is 3; give an agent class"),  # type: ignore[arg-type]
        (lambda: ChildSpec("a", "agents"), "start is 'agents'; give .* 'module:Class'"),
        (lambda: ChildSpec("a", "agents:"), "start is 'agents:'"),
        (lambda: ChildSpec("a", ":Agent"), "start is ':Agent'"),
        (lambda: ChildSpec("a", "my agents:Agent"), "start is 'my agents:Agent'"),
        (lambda: ChildSpec("a", Agent, shutdown=-1), "Child 'a': shutdown is -1; give seconds, 0 or more"),
        (lambda: ChildSpec("a", Agent, shutdown=math.nan), "shutdown is nan"),
        (lambda: ChildSpec("a", Agent, shutdown="5"), "shutdown is '5'"),  # type: ignore[arg-type]
        (lambda: SupervisorSpec("s", intensity=-1), "Supervisor 's': intensity is -1; give a whole number"),
        (lambda: SupervisorSpec("s", intensity=1.5), "intensity is 1.5"),  # type: ignore[arg-type]
        (lambda: SupervisorSpec("s", period=0), "Supervisor 's': period is 0; give seconds above 0"),
        (lambda: SupervisorSpec("s", period=math.inf), "period is inf"),
        (lambda: SupervisorSpec("s", children=(Agent,)), "child 1 is <class.*; wrap it as ChildSpec"),  # type: ignore[arg-type]
        (lambda: Backoff(initial=-0.1), "Backoff: initial is -0.1"),
        (lambda: Backoff(initial=math.inf, maximum=math.inf), "initial is inf"),
        (lambda: Backoff(factor=0.5), "factor is 0.5; give a finite number of at least 1"),
        (
            lambda: Backoff(initial=2.0, maximum=1.0),
            r"maximum is 1.0; give seconds, at least `initial` \(2\)",
        ),
        (lambda: Backoff(jitter=1.5), "jitter is 1.5; give a number from 0 to 1"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place_and_the_fix(make: Any, message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        make()


def test_two_children_of_one_id_are_refused_with_both_places() -> None:
    children = (ChildSpec("a", Agent), ChildSpec("b", Agent), SupervisorSpec("a"))

    with pytest.raises(InvalidSpec, match="Supervisor 's': children 1 and 3 are both 'a'; give each an id"):
        SupervisorSpec("s", children=children)


def test_the_same_id_may_stand_below_two_supervisors() -> None:
    inner = SupervisorSpec("inner", children=(ChildSpec("a", Agent),))

    assert SupervisorSpec("s", children=(ChildSpec("a", Agent), inner)).children[1] is inner


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Strategy("one_for_al"), "'one_for_al' is not a strategy. Did you mean 'one_for_all'?"),
        (lambda: Restart("permanant"), "'permanant' is not a restart. Did you mean 'permanent'?"),
        (lambda: SupervisorSpec("s", "all_for_one"), "'all_for_one' is not a strategy. Did"),  # type: ignore[arg-type]
        (lambda: Strategy(7), "7 is not a strategy. Known: one_for_all, one_for_one, rest_for_one."),
        (lambda: Restart("never"), "'never' is not a restart. Known: permanent, temporary, transient."),
    ],
)
def test_an_unknown_word_is_refused_with_the_nearest_one_that_is_known(make: Any, message: str) -> None:
    with pytest.raises(EtherError, match=re.escape(message)):
        make()


def test_the_first_restart_is_at_once_and_each_further_one_waits_longer_up_to_the_maximum() -> None:
    backoff = Backoff(initial=0.1, factor=2.0, maximum=1.0, jitter=0.0)

    delays = [backoff.delay(attempt, Random(1)) for attempt in range(1, 8)]

    assert delays == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_jitter_only_shortens_a_delay_and_by_no_more_than_its_part() -> None:
    backoff, random = Backoff(initial=1.0, factor=1.0, jitter=0.25), Random(1)

    delays = [backoff.delay(2, random) for _ in range(200)]

    assert 0.75 <= min(delays) < 0.76
    assert 0.99 < max(delays) <= 1.0


def test_without_an_initial_delay_every_restart_is_at_once_however_many_there_are() -> None:
    backoff = Backoff(initial=0.0)

    assert {backoff.delay(attempt, Random(1)) for attempt in (1, 2, 50, 5000)} == {0.0}


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    initial = draw(st.floats(0.0, 10.0))
    maximum = initial + draw(st.floats(0.0, 1e6))
    return Backoff(initial, draw(st.floats(1.0, 1e6)), maximum, draw(st.floats(0.0, 1.0)))


@given(backoff=backoffs(), attempt=st.integers(2, 10**6), seed=st.integers(0, 2**32))
def test_no_delay_is_over_the_maximum_or_shorter_than_jitter_makes_the_initial_one(
    backoff: Backoff, attempt: int, seed: int
) -> None:
    delay = backoff.delay(attempt, Random(seed))

    assert backoff.initial * (1.0 - backoff.jitter) - 1e-9 <= delay <= backoff.maximum
