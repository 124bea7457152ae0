"""What is named is asked for before what the bus only thinks that somebody may have missed."""

from __future__ import annotations

from pathlib import Path

from ether import Agent, Runtime, capability


class Echo(Agent):
    @capability("do.echo")
    def echo(self, number: int) -> int:
        return number


def test_a_delegator_collects_what_it_names_before_the_rest(tmp_path: Path) -> None:
    with Runtime(journal=tmp_path / "journal.db", name="desk") as bus:
        bus.start(Echo)
        handles = [bus.delegate("do.echo", {"number": number}) for number in range(5)]
        assert [handle.result().data for handle in handles] == [0, 1, 2, 3, 4]

    with Runtime(journal=tmp_path / "journal.db", name="desk") as again:
        named = [handles[3].id, "018f6b1e-0000-7000-8000-000000000000", handles[1].id, handles[3].id, handles[4].id]
        collected = again.collect(named)

        assert [handle.id for handle in collected[:4]] == list(dict.fromkeys(named)), "in their order"
        del collected[1]
        assert sorted(handle.id for handle in collected) == sorted(handle.id for handle in handles)
        assert [handle.result(10.0).data for handle in collected[:3]] == [3, 1, 4]
        assert sorted(handle.result(10.0).data for handle in collected) == [0, 1, 2, 3, 4]
