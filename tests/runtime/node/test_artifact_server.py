"""What a node answers to FETCHes without a key: late, all together, and after a look at no more than the key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ether.node.artifacts import artifact_server
from ether.node.artifacts.artifact_server import ArtifactServer
from ether_actors.execution.due_calls import DueCalls
from ether_broker.encoding import bounded
from ether_broker.envelope.payload import pack, unpack
from ether_broker.envelope.status import Status
from ether_broker.wire.chunk import ChunkRequest
from ether_broker.wire.frame import Kind, pack_envelope, read_header


class Answer(NamedTuple):
    """A CHUNK that was sent."""

    number: int
    status: int
    body: bytes


class World:
    """A node's link, pool, clock and due calls as far as an artifact server uses them, with one and a file that it offers."""

    kept_bytes = 0

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.due_calls = DueCalls()
        self.kept: list[Answer] = []
        self.sent: list[Answer] = []
        this: Any = self
        self.link = self
        self.server = ArtifactServer("here", b"secret", this, this, self.due_calls.add)
        (folder / "report").write_bytes(b"content")
        self.artifact: dict[str, Any] = self.server.offer(folder / "report").model_dump()

    def monotonic(self) -> float:
        return self.now

    def run(self, call: Callable[[], None]) -> None:
        call()

    def send(self, envelope: bytes, *, more_follows: bool = False) -> None:
        assert more_follows
        header = read_header(envelope)
        self.kept.append(Answer(int.from_bytes(header.request_id), header.status, envelope[header.body :]))

    def flush(self) -> None:
        self.sent += self.kept
        self.kept.clear()

    def send_now(self, envelope: bytes) -> None:
        self.send(envelope, more_follows=True)
        self.flush()

    def pass_time(self, seconds: float) -> int:
        """Let time pass; how many calls were due."""
        self.now += seconds
        due = self.due_calls.take_due(self.now)
        for call in due:
            call()
        return len(due)

    def fetch(self, number: int, body: bytes) -> None:
        envelope = pack_envelope(Kind.FETCH, request_id=number.to_bytes(16), target=b"here", body=body)
        self.server.serve(read_header(envelope), envelope)

    def request(self, source: object = (), **changed: object) -> dict[str, Any]:
        """What to ask of the file that is offered; the source or other fields of it are changed."""
        source = self.artifact["source"] if source == () else source
        return {"artifact": self.artifact | {"source": source} | changed, "offset": 0, "length": 7}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_who_has_no_key_is_answered_late_and_all_of_them_together(world: World) -> None:
    source = world.artifact["source"]
    foreign = [
        world.request(source | {"key": "0" * 64}), world.request(source | {"key": 7}), world.request(source | {"key": None}),
        world.request(path="/etc/passwd"), world.request(size=8), world.request(size=7.0), world.request(sha256=None),
        world.request(path={"a": 1}), world.request(source | {"file": "1-2-3-4"}),
    ]  # fmt: skip
    unreadable = [{}, world.request(None), world.request("text"), {"artifact": [1]}, [1], "\ud7ff"]
    for number, body in enumerate([*foreign, *unreadable]):
        world.fetch(number, pack(body))
    world.fetch(98, b"\xc1")
    world.fetch(99, pack(world.request()))
    assert world.sent == [(99, Status.COMPLETED.code, b"content")], "who has a key need not wait for them"
    world.pass_time(artifact_server._UNLAWFUL / 2)
    assert len(world.sent) == 1

    assert world.pass_time(artifact_server._UNLAWFUL) == 1, "one call for all"
    refused = world.sent[1:]
    assert [answer.number for answer in refused] == [*range(len(foreign) + len(unreadable)), 98]
    assert {answer.status for answer in refused} == {Status.REJECTED_CONTEXT.code}
    codes = [unpack(answer.body)["code"] for answer in refused]
    assert codes == ["artifact_mismatch"] * len(foreign) + ["invalid_envelope"] * (len(unreadable) + 1)

    world.fetch(100, b"\xc1")
    assert world.pass_time(artifact_server._UNLAWFUL) == 1
    assert [answer.number for answer in world.sent[-1:]] == [100], "and so for those that come later"


def test_what_is_asked_is_not_validated_without_a_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[object] = []
    parse = ChunkRequest.parse
    monkeypatch.setattr(ChunkRequest, "parse", lambda body: (parsed.append(body), parse(body))[1])
    world.fetch(1, pack(world.request(world.artifact["source"] | {"key": "0" * 64}) | {"x": 1}))
    assert parsed == []
    world.fetch(2, pack(world.request() | {"offset": -1}))
    world.fetch(3, pack(world.request()))
    assert len(parsed) == 2
    world.pass_time(artifact_server._UNLAWFUL)

    assert [answer.number for answer in world.sent] == [3, 1, 2]


@pytest.mark.parametrize("junk", [[{}] * 7_000, [[]] * 7_000, {str(number): {} for number in range(900)}, [[[[]]]]])
def test_no_more_than_some_values_are_made_of_a_body(world: World, junk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    tally = bounded._Tally.__call__

    def count(self: Any, container: Any) -> Any:
        nonlocal made
        made += 1
        return tally(self, container)

    monkeypatch.setattr(bounded._Tally, "__call__", count)
    world.fetch(1, pack(world.request() | {"x": junk}))
    world.pass_time(artifact_server._UNLAWFUL)

    assert made <= 33
    assert unpack(world.sent[0].body)["code"] == "invalid_envelope"
