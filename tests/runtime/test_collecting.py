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
        collected = again.collect([handles[3].id])

        assert collected[0].id == handles[3].id
        assert sorted(handle.id for handle in collected) == sorted(handle.id for handle in handles)
        assert collected[0].result(10.0).data == 3
        assert sorted(handle.result(10.0).data for handle in collected) == [0, 1, 2, 3, 4]
