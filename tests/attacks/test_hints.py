"""Who asks for what there is not, again and again, waits for it: the others do not."""

from __future__ import annotations

from typing import Any

import pytest

from ether_broker.wire.frame import Flag, Kind, join_frame, pack_envelope
from tests.actors.peers import Bus, request_id
from tests.actors.work_counter import WorkCounter

_AGENTS = 600
_ASKED = 40
_MOST = 250_000
"""Units of work of a step, which has room for six refusals of 25,000 or so."""


def _name(number: int, last: str = "z") -> str:
    """A name of 200 letters, near to all others of its kind."""
    return f"{number:04x}." + ".".join(["abcdefghij"] * 14)[:194].ljust(194, "z") + last


@pytest.mark.parametrize(
    ("to", "capability", "flags"),
    [("?", "x.y", 0), ("", "?", 0), ("many", "?", 0), ("?", "?", Flag.FALLTHROUGH)],
    ids=["agents", "capabilities", "one agent's capabilities", "either"],
)
def test_a_frame_of_names_that_are_near_to_all_there_are_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, to: str, capability: str, flags: int
) -> None:
    bus = Bus()
    d, worker, mallory = bus.delegator("d"), bus.node("nw", "w"), bus.delegator("mallory")
    owner = bus.node("n")
    for number in range(_AGENTS):
        declared = {"capabilities": [{"name": _name(number)}]}
        owner.send(Kind.REGISTER, request_id=request_id(50_000), source=_name(number).encode(), body=declared)
    many = {"capabilities": [{"name": _name(number)} for number in range(512)]}
    owner.send(Kind.REGISTER, request_id=request_id(50_001), source=b"many", body=many)
    bus.step()
    assert len(bus.state.registry) == _AGENTS + 4
    asked = [_name(number, "x") for number in range(_ASKED)]
    d.delegate("d", "q.q", to="nobody")  # the first refusal of a process imports and builds what the next ones find
    bus.step()
    assert d.outcome().code == "unknown_agent"

    mallory.raw(
        join_frame(
            [
                pack_envelope(
                    Kind.DELEGATION, request_id=request_id(60_000 + number), source=b"mallory", flags=flags,
                    target=to.replace("?", name).encode(), capability=capability.replace("?", name).encode(),
                    deadline=bus.now + 10.0, body=b"\x80",
                )
                for number, name in enumerate(asked)
            ],
            mallory.said_session,
        )
    )  # fmt: skip
    number = d.delegate("d", to="w")
    costs: list[int] = []
    given: list[bool] = []
    step = bus.supervisor.step

    def counted(*args: Any) -> None:
        with WorkCounter() as counter:
            step(*args)
        costs.append(counter.work)
        given.append(bus.entry(number) is not None)

    monkeypatch.setattr(bus.supervisor, "step", counted)
    bus.step()

    assert worker.work() == [number]
    assert given.index(True) < 5
    assert len(costs) > _ASKED / 8
    assert max(costs) < _MOST
    assert len(mallory.outcomes()) == _ASKED
