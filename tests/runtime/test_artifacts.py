"""Artifacts on machines that have not the file: fetched whole and checked, or a typed error and nothing left behind."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ether import (
    Agent,
    Artifact,
    ArtifactMismatch,
    ArtifactTooLarge,
    ArtifactUnavailable,
    Closed,
    Cluster,
    NodeSpec,
    Runtime,
    Task,
    UsageError,
    capability,
)
from ether.cluster import AgentSpec
from ether.node.artifacts import artifact_fetcher, artifact_server
from ether.node.artifacts.artifact_fetcher import ArtifactFetcher
from ether.node.artifacts.artifact_server import ArtifactServer
from ether.node.artifacts.transfer_places import MOST_OF_NODE, TransferPlaces
from ether_broker.artifacts import sealing
from ether_broker.artifacts.fetching import FETCHERS
from ether_broker.envelope import artifact as artifact_module
from ether_broker.envelope.views.agent_io import AgentInput
from ether_broker.timing import Timing
from ether_broker.wire.chunk import MOST_CHUNK, ChunkRequest
from tests.runtime.script import script
from tests.support import wait_until

CONTENT = b"".join(number.to_bytes(8) for number in range(3 * MOST_CHUNK // 8)) + b"end"
"""Four chunks, of which no two are the same."""


class Scribe(Agent):
    """Makes files, and reads those of others."""

    @capability("scribe.make")
    def make(self, path: str, task: Task) -> Any:
        Path(path).write_bytes(CONTENT)
        return task.respond(artifacts=[task.artifact(path)])

    @capability("scribe.offer")
    def offer(self, path: str, task: Task) -> Any:
        return task.respond(artifacts=[task.artifact(path)])

    @capability("scribe.described")
    def describe(self, path: str, task: Task) -> list[Any]:
        artifact = task.artifact(path)
        return [artifact.size, artifact.source]

    @capability("scribe.lease")
    def lease(self, path: str, task: Task) -> Any:
        with task.lease(path) as lease:
            return task.respond(artifacts=[lease.write(CONTENT)])

    @capability("scribe.fail")
    def fail(self, file: Artifact) -> None:
        logging.getLogger("scribe").warning("cannot do %s, %r", file, file)
        raise RuntimeError(f"cannot do {file}, {file!r}")

    @capability("scribe.name")
    def name(self, path: str, task: Task) -> Any:
        return task.respond(artifacts=[Artifact(path=path)])

    @capability("scribe.name_async")
    async def name_async(self, path: str, task: Task) -> Any:
        return task.respond(artifacts=[Artifact(path=path)])

    @capability("scribe.size")
    def size(self, file: Artifact) -> int:
        with file.open() as opened:
            return len(opened.read())

    @capability("scribe.async")
    async def read_async(self, file: Artifact) -> int:
        return len(await asyncio.to_thread(file.read))

    @capability("scribe.blocking")
    async def read_blocking(self, file: Artifact) -> int:
        return len(file.read())


class Filler(Agent):
    """Keeps busy what `asyncio.to_thread` shares."""

    filled, go_on = threading.Event(), threading.Event()

    @capability("filler.fill")
    async def fill(self) -> None:
        """Fill its threads."""
        self.go_on.clear()
        calls = [asyncio.to_thread(self.go_on.wait, 20.0) for _ in range(40)]
        asyncio.get_running_loop().call_soon(self.filled.set)
        await asyncio.gather(*calls)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds an artifact finds no file, as on another machine; who offers it does."""

    def absent(path: Path) -> Any:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(artifact_module, "open_regular", absent)


@pytest.fixture(params=["embedded", "joined"])
def bus(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    if request.param == "embedded":
        with Runtime() as made:
            made.start(Scribe)
            yield made
    else:
        with Runtime(bind="tcp://127.0.0.1:*") as broker:
            broker.start(Scribe)
            with Runtime.connect(broker.url, name="desk") as made:
                yield made


def make(bus: Runtime, tmp_path: Path, how: str = "make") -> Artifact:
    response = bus.delegate(f"scribe.{how}", {"path": str(tmp_path / "report")}).result(20.0).unwrap()
    return response.artifacts[0]


def changed(monkeypatch: pytest.MonkeyPatch, answer: Callable[[ChunkRequest, bytes], bytes]) -> None:
    """Let nodes send other bytes than their files have."""
    read = ArtifactServer._read
    monkeypatch.setattr(ArtifactServer, "_read", lambda self, wanted: answer(wanted, read(self, wanted)))


def test_the_key_is_in_no_error_and_no_log(bus: Runtime, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    artifact = make(bus, tmp_path)
    assert artifact.source is not None
    caplog.set_level("DEBUG")
    response = bus.delegate("scribe.fail", {"file": artifact}).result(20.0)
    assert response.error is not None
    for said in (response.error.message, response.explain(), repr(response), caplog.text):
        assert "cannot do" in said
        assert artifact.source.file in said
        assert artifact.source.key not in said


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("how", ["make", "lease"])
def test_who_has_not_the_file_fetches_it(bus: Runtime, tmp_path: Path, how: str) -> None:
    artifact = make(bus, tmp_path, how)

    with artifact.open() as file:
        assert file.read(8) == CONTENT[:8]
        assert file.read() == CONTENT[8:]
    assert artifact.read() == CONTENT
    assert artifact.verify() is artifact
    copy = artifact.copy_to(tmp_path / "copy")
    assert copy.read_bytes() == CONTENT
    assert bus.delegate("scribe.size", {"file": artifact}).result(20.0).data == len(CONTENT)
    assert bus.delegate("scribe.async", {"file": artifact}).result(20.0).data == len(CONTENT)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".report")) == ["copy", "report"]


def test_who_has_the_file_fetches_nothing(bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArtifactFetcher, "fetch", lambda *_: pytest.fail("it is here"))
    artifact = make(bus, tmp_path)

    with artifact.open() as file:
        assert file.read() == CONTENT
        assert os.fstat(file.fileno()).st_ino == (tmp_path / "report").stat().st_ino
    assert artifact.read() == CONTENT


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("size", [0, 1, MOST_CHUNK - 1, MOST_CHUNK, MOST_CHUNK + 1, 5 * MOST_CHUNK])
def test_a_delegator_offers_files_of_its_own(bus: Runtime, tmp_path: Path, size: int) -> None:
    file = tmp_path / "input"
    file.write_bytes(bytes(size))

    assert bus.delegate("scribe.size", {"file": bus.artifact(file)}).result(20.0).unwrap().data == size


@pytest.mark.usefixtures("elsewhere")
def test_what_was_not_offered_cannot_be_fetched(bus: Runtime, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("nobody offered this")
    named = bus.delegate("scribe.name", {"path": str(secret)}).result(20.0).unwrap().artifacts[0]
    with pytest.raises(ArtifactMismatch, match=r"task\.artifact\(path\)"):
        named.read()

    offered = make(bus, tmp_path)
    assert offered.source is not None
    for changes in (
        {"path": str(secret)},
        {"sha256": named.sha256, "path": str(secret), "size": named.size},
        {"size": 7},
        {"source": offered.source.model_copy(update={"key": "0" * 64})},
        {"source": offered.source.model_copy(update={"key": "é"})},
    ):
        with pytest.raises(ArtifactMismatch, match="has not offered"):
            offered.model_copy(update=changes).read()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("change", ["write", "replace", "link", "link to it", "remove", "directory", "fifo"])
def test_a_file_that_was_changed_since_is_not_given_out(bus: Runtime, tmp_path: Path, change: str) -> None:
    artifact, file, other = make(bus, tmp_path), tmp_path / "report", tmp_path / "other"
    other.write_bytes(CONTENT)
    if change == "write":
        os.utime(file, ns=(0, 0))
    elif change == "link to it":
        file.rename(tmp_path / "moved")
        file.symlink_to(tmp_path / "moved")
    else:
        file.unlink()
    if change == "replace":
        other.rename(file)
    elif change == "link":
        file.symlink_to(other)
    elif change == "directory":
        file.mkdir()
    elif change == "fifo":
        os.mkfifo(file)

    with pytest.raises(ArtifactMismatch, match="was changed or removed since"):
        artifact.read()


@pytest.mark.usefixtures("elsewhere")
def test_a_file_that_its_node_cannot_open_is_told_as_such(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    opened = os.open

    def refuse(path: Any, *args: Any, **options: Any) -> int:
        if path == artifact.path:
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ArtifactUnavailable, match="Permission denied"):
        artifact.read()


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (lambda wanted, data: data[:-1], ArtifactUnavailable, "is cut off"),
        (lambda wanted, data: data + b"x", ArtifactUnavailable, "is cut off|more bytes than"),
        (lambda wanted, data: b"", ArtifactUnavailable, "is cut off"),
        (lambda wanted, data: bytes(len(data)), ArtifactMismatch, "is not what was sealed"),
        (lambda wanted, data: data[::-1] if wanted.offset else data, ArtifactMismatch, "is not what was sealed"),
    ],
)
def test_a_node_that_sends_other_bytes_than_it_sealed_is_found_out(  # noqa: PLR0917
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[ChunkRequest, bytes], bytes], error: type[Exception], words: str,
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    changed(monkeypatch, answer)
    copy = tmp_path / "copy"
    copy.write_text("was here before")

    for take in (artifact.open, artifact.read, artifact.verify, lambda: artifact.copy_to(copy)):
        with pytest.raises(error, match=words):
            take()
    assert copy.read_text() == "was here before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "report"]


@pytest.mark.usefixtures("elsewhere")
def test_more_than_may_be_fetched_is_refused_before_anything_comes(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    monkeypatch.setattr(ArtifactFetcher, "fetch", lambda *_: pytest.fail("it is too large"))

    with pytest.raises(ArtifactTooLarge, match="max_bytes=100 is the most"):
        artifact.open(max_bytes=100)


@pytest.mark.usefixtures("elsewhere")
def test_a_node_that_stands_still_is_given_up_after_the_idle_timeout(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    monkeypatch.setattr(ArtifactServer, "serve", lambda *_: None)

    with pytest.raises(ArtifactUnavailable, match=r"No byte of .* came for 0\.2 s; 0 of "):
        artifact.read(idle_timeout=0.2)
    monkeypatch.undo()


@pytest.mark.usefixtures("elsewhere")
def test_a_node_that_is_gone_is_named_at_last(tmp_path: Path) -> None:
    with Runtime(bind="tcp://127.0.0.1:*") as broker:
        with Runtime.connect(broker.url, name="desk") as desk:
            desk.start(Scribe)
            artifact = make(broker, tmp_path)
            assert artifact.read() == CONTENT
        with pytest.raises(
            ArtifactUnavailable, match="'desk', which offered the artifact, is not on the bus"
        ) as caught:
            artifact.read(idle_timeout=5.0)
        assert type(caught.value) is ArtifactUnavailable
    with pytest.raises(ArtifactUnavailable, match="No Runtime is open in this process"):
        artifact.read()


JOINED = """
import sys, threading
from ether import Runtime
from tests.runtime.test_artifacts import Scribe
with Runtime.connect(sys.argv[1], name="desk") as desk:
    desk.start(Scribe)
    print("up")
    threading.Event().wait()
"""


@pytest.mark.usefixtures("elsewhere")
def test_a_node_that_is_killed_in_the_middle_is_waited_for_as_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(artifact_fetcher, "ABSENCE", 1.0)
    answered = ArtifactFetcher.answered
    timing = Timing(heartbeat=0.2, silence=1.0)
    with Runtime(bind="tcp://127.0.0.1:*", timing=timing) as bus, script(JOINED, bus.url) as joined:
        joined.line("up")
        (tmp_path / "report").write_bytes(CONTENT * 20)
        artifact = make(bus, tmp_path, "offer")

        def kill_first(self: ArtifactFetcher, *args: Any) -> bool:
            joined.process.kill()
            joined.process.wait()  # three more chunks may be under way, and the others are not asked for yet
            return answered(self, *args)

        monkeypatch.setattr(ArtifactFetcher, "answered", kill_first)
        said = r"'desk', which offered the artifact, is .* the bus\. [\d,]+ of 15,728,700 bytes"
        with pytest.raises(ArtifactUnavailable, match=said) as caught:
            artifact.read()
        assert type(caught.value) is ArtifactUnavailable


@pytest.mark.usefixtures("elsewhere")
def test_it_goes_on_when_its_node_comes_back_with_its_secret(tmp_path: Path) -> None:
    secret = os.urandom(32)
    with Runtime(bind="tcp://127.0.0.1:*") as broker:
        with Runtime.connect(broker.url, name="desk", artifact_secret=secret) as desk:
            desk.start(Scribe)
            artifact = make(broker, tmp_path)
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(artifact.read()))
        reader.start()
        with Runtime.connect(broker.url, name="desk", artifact_secret=secret):
            reader.join(20.0)
        assert found == [CONTENT]
        with (
            Runtime.connect(broker.url, name="desk", artifact_secret=bytes(32)),
            pytest.raises(ArtifactMismatch, match="another `artifact_secret`"),
        ):
            artifact.read()
        with pytest.raises(UsageError, match="32 random bytes"):
            Runtime.connect(broker.url, artifact_secret=b"short")


@pytest.mark.usefixtures("elsewhere")
def test_it_is_fetched_on_its_own_bus_of_those_that_the_process_is_on(tmp_path: Path) -> None:
    with (
        Runtime(bind="tcp://127.0.0.1:*") as other,
        Runtime.connect(other.url, name="desk") as of_the_same_name,
        Runtime(bind="tcp://127.0.0.1:*") as broker,
        Runtime.connect(broker.url, name="desk") as desk,
    ):
        desk.start(Scribe)
        of_the_same_name.start(Scribe)
        artifact = make(broker, tmp_path)
        order = list(FETCHERS)
        assert order.index(other._node._artifact_fetcher) < order.index(broker._node._artifact_fetcher)

        assert artifact.read() == CONTENT
        desk.close()
        with pytest.raises(ArtifactMismatch, match="'desk' has not offered"):
            artifact.read(idle_timeout=10.0)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.timeout(50)
def test_a_broker_that_is_silent_holds_nobody_up_who_is_on_another_bus(tmp_path: Path) -> None:
    node = NodeSpec("node-1", (AgentSpec("tests.runtime.test_artifacts:Scribe"),))
    with (
        Cluster([node], timing=Timing(heartbeat=0.2, silence=0.5)) as stopped,
        Runtime.connect(stopped.url, name="silent") as silent,
        Runtime() as bus,
    ):
        bus.start(Scribe)
        artifact = make(bus, tmp_path)
        pid = stopped.signal("broker", signal.SIGSTOP)
        assert pid is not None
        try:
            is_heard = silent._node._session_state.is_heard
            wait_until(lambda: not is_heard(time.monotonic()), what="the broker has been silent for too long")
            assert next(iter(FETCHERS)) is silent._node._artifact_fetcher

            assert artifact.read(idle_timeout=60.0) == CONTENT
        finally:
            os.kill(pid, signal.SIGCONT)


def test_another_file_of_that_name_here_is_not_mixed_with_the_one_that_is_fetched(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    (tmp_path / "another").write_bytes(b"another")
    opened = artifact_module.open_regular
    monkeypatch.setattr(artifact_module, "open_regular", lambda _path: opened(tmp_path / "another"))

    assert artifact.read() == CONTENT
    assert artifact.copy_to(tmp_path / "copy").read_bytes() == CONTENT
    with artifact.open() as file:
        assert file.read() == CONTENT


@pytest.mark.usefixtures("elsewhere")
def test_many_at_once_wait_for_each_other(bus: Runtime, tmp_path: Path) -> None:
    artifact = make(bus, tmp_path)
    found: list[bytes] = []
    readers = [threading.Thread(target=lambda: found.append(artifact.read())) for _ in range(30)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(30.0)

    assert len(found) == 30
    assert set(found) == {CONTENT}


@pytest.mark.usefixtures("elsewhere")
def test_who_waits_for_a_place_has_its_idle_timeout_too(bus: Runtime, tmp_path: Path) -> None:
    artifact = make(bus, tmp_path)
    assert artifact.source is not None
    places: list[TransferPlaces] = [fetcher._places for fetcher in FETCHERS]  # type: ignore[attr-defined]
    held = [(each, each.take(artifact.source.node, 1.0)) for each in places for _ in range(MOST_OF_NODE)]

    with pytest.raises(ArtifactUnavailable, match=r"2 at a time of one node and 8 in all, and no byte"):
        artifact.read(idle_timeout=0.05)
    for each, place in held:
        assert place is not None
        each.give_back(place)
    assert artifact.read() == CONTENT


@pytest.mark.usefixtures("elsewhere")
def test_a_node_that_stands_still_holds_nobody_up_who_fetches_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    serve = ArtifactServer.serve
    monkeypatch.setattr(
        ArtifactServer, "serve", lambda self, *args: None if self._name == "still" else serve(self, *args)
    )
    with Runtime(bind="tcp://127.0.0.1:*") as broker, Runtime.connect(broker.url, name="still") as still:
        (tmp_path / "report").write_bytes(CONTENT)
        artifact, silent = broker.artifact(tmp_path / "report"), still.artifact(tmp_path / "report")
        ended: list[BaseException] = []

        def read() -> None:
            with pytest.raises(ArtifactUnavailable) as caught:
                silent.read(idle_timeout=1.0)
            ended.append(caught.value)

        readers = [threading.Thread(target=read) for _ in range(20)]
        for reader in readers:
            reader.start()
        assert artifact.read(idle_timeout=30.0) == CONTENT
        assert not ended
        for reader in readers:
            reader.join(30.0)
        assert len(ended) == 20


@pytest.mark.usefixtures("elsewhere")
def test_a_node_with_much_to_send_reads_no_more_of_it(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    monkeypatch.setattr(artifact_server, "_MOST_KEPT", -1)
    with pytest.raises(ArtifactUnavailable, match=r"No byte of .* came for 0\.3 s"):
        artifact.read(idle_timeout=0.3)
    monkeypatch.undo()


@pytest.mark.usefixtures("elsewhere")
def test_whatever_a_node_fails_with_is_told_at_once(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def fail(*_: Any) -> bytes:
        raise RuntimeError("a bug")

    artifact = make(bus, tmp_path)
    monkeypatch.setattr(ArtifactServer, "_read", fail)
    with pytest.raises(ArtifactUnavailable, match="a bug"):
        artifact.read()


@pytest.mark.usefixtures("elsewhere")
def test_what_is_too_long_to_be_asked_for_is_told_at_once(bus: Runtime, tmp_path: Path) -> None:
    artifact = make(bus, tmp_path)
    assert artifact.source is not None
    source = artifact.source.model_copy(update={"file": "1" * 9_000})
    with pytest.raises(ArtifactUnavailable, match="too long to be asked for"):
        artifact.model_copy(update={"source": source}).read()


@pytest.mark.usefixtures("elsewhere")
def test_a_node_whose_agents_answer_much_gives_chunks_now_and_then(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(artifact_server, "_MUCH_KEPT", -1)
    assert make(bus, tmp_path).read(idle_timeout=10.0) == CONTENT


@pytest.mark.usefixtures("elsewhere")
def test_who_has_no_key_takes_no_turn_from_who_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_server, "_MUCH_KEPT", -1)
    monkeypatch.setattr(artifact_server, "_PACE", 1e6)
    (tmp_path / "report").write_bytes(b"small")
    with Runtime() as bus:
        artifact = bus.artifact(tmp_path / "report")
        assert artifact.source is not None
        foreign = artifact.model_copy(update={"source": artifact.source.model_copy(update={"key": "0" * 64})})
        with pytest.raises(ArtifactMismatch, match="has not offered"):
            foreign.read()
        assert artifact.read(idle_timeout=1.0) == b"small"
        with pytest.raises(ArtifactUnavailable, match="No byte of"):
            artifact.read(idle_timeout=0.2)


def test_a_file_that_is_not_as_large_as_was_sealed_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(artifact_module, "digest_of", lambda *_: pytest.fail("it is read"))

    for take in (Artifact.verify, Artifact.read, Artifact.open):
        with pytest.raises(ArtifactMismatch, match="is not what was sealed") as caught:
            take(Artifact(path=str(large), sha256="0" * 64, size=8))
        assert caught.value.found_size == 1 << 40


def test_a_file_whose_size_was_not_sealed_is_read_as_far_as_may_be_fetched(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_bytes(CONTENT)
    artifact = Artifact.of(file).model_copy(update={"size": None})

    assert artifact.read() == artifact.read(max_bytes=len(CONTENT)) == CONTENT
    with pytest.raises(ArtifactTooLarge, match="has more than max_bytes=100, the most that is read"):
        artifact.read(max_bytes=100)
    if Path("/proc/version").exists():  # its size is said to be 0
        with pytest.raises(ArtifactMismatch) as caught:
            Artifact(path="/proc/version", sha256="0" * 64).read(max_bytes=10)
        assert caught.value.found_size == 11


def take_copy(artifact: Artifact, **bounds: Any) -> None:
    artifact.copy_to(f"{artifact.path}.copy", **bounds)


@pytest.mark.parametrize("take", [Artifact.open, Artifact.read, take_copy])
def test_a_file_of_this_machine_is_bounded_too_and_so_are_the_bounds(
    take: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("ether_broker.envelope.artifact.MOST_FETCHED", 3)
    file = tmp_path / "report"
    file.write_bytes(b"1234")
    artifact = Artifact.of(file)

    with pytest.raises(ArtifactTooLarge, match="report has more than max_bytes=3, the most that is read"):
        take(artifact, max_bytes=3)
    for wrong in (-1, True, 3.0, "3"):
        with pytest.raises(UsageError, match=re.escape(f"max_bytes={wrong!r}: a whole number of bytes, 0 or more.")):
            take(artifact, max_bytes=wrong)
    for wrong in (0, -1.0, True, float("nan"), float("inf"), "3", None):
        with pytest.raises(UsageError, match=re.escape(f"idle_timeout={wrong!r}: a number of seconds above 0.")):
            take(artifact, idle_timeout=wrong)
    assert list(tmp_path.iterdir()) == [file]

    assert artifact.read(max_bytes=4) == artifact.read() == b"1234"
    of_no_size = artifact.model_copy(update={"size": None})
    with pytest.raises(ArtifactTooLarge, match="report has more than 3 bytes, and nobody said how many were sealed"):
        take(of_no_size)
    assert of_no_size.read(max_bytes=4) == b"1234"
    assert artifact.verify() is artifact


def test_an_error_tells_nothing_of_a_file_that_was_not_sealed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"1234")
    artifact = Artifact(path=str(tmp_path / "secret"), sha256="0" * 64, size=4)
    with pytest.raises(ArtifactMismatch) as caught:
        artifact.read()

    assert hashlib.sha256(b"1234").hexdigest() not in str(caught.value)


def test_a_file_that_is_written_while_it_is_sealed_is_not_offered(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    file = tmp_path / "report"
    file.write_bytes(CONTENT)
    digest = sealing.digest_of

    def write_meanwhile(*args: Any) -> Any:
        found = digest(*args)
        os.utime(file, ns=(0, 0))
        return found

    monkeypatch.setattr(sealing, "digest_of", write_meanwhile)
    with pytest.raises(OSError, match="was written while it was sealed"):
        bus.artifact(file)


def test_what_has_another_size_than_the_system_says_is_not_offered(bus: Runtime) -> None:
    with pytest.raises(OSError, match="has not the size that the system says"):
        bus.artifact("/proc/self/status")


@pytest.mark.usefixtures("elsewhere")
def test_closing_the_runtime_ends_what_waits_for_a_place(tmp_path: Path) -> None:
    caught: list[BaseException] = []

    def read() -> None:
        try:
            artifact.read(idle_timeout=60.0)
        except BaseException as error:
            caught.append(error)

    with Runtime() as bus:
        bus.start(Scribe)
        artifact = make(bus, tmp_path)
        places = bus.node._artifact_fetcher._places
        for _ in range(MOST_OF_NODE):
            assert places.take(bus.name, 1.0)
        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: bool(places._waiting), what="it waits for a place")
    reader.join(10.0)

    assert [type(error) for error in caught] == [Closed]


@pytest.mark.usefixtures("elsewhere")
def test_a_callback_may_not_wait_for_what_another_runtime_fetches(tmp_path: Path) -> None:
    caught: list[BaseException] = []

    def read(_handle: Any) -> None:
        try:
            artifact.read(idle_timeout=5.0)
        except BaseException as error:
            caught.append(error)
        read_it.set()

    read_it, is_heard = threading.Event(), threading.Event()

    class Late(Agent):
        """Answers when its caller is sure to hear it later."""

        @capability("late.answer")
        def answer(self) -> None:
            assert is_heard.wait(20.0)

    with (
        Runtime(bind="tcp://127.0.0.1:*") as has,
        Runtime(bind="tcp://127.0.0.1:*") as broker,
        Runtime.connect(broker.url, name="desk") as desk,
    ):
        (tmp_path / "report").write_bytes(CONTENT)
        artifact = has.artifact(tmp_path / "report")
        broker.start(Late)
        desk.delegate("late.answer").add_done_callback(read)
        is_heard.set()
        assert read_it.wait(20.0)

    assert [type(error) for error in caught] == [UsageError]


def test_what_cannot_be_read_to_its_end_is_no_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    memory = Artifact(path="/proc/self/mem", sha256="0" * 64)  # which cannot be read from its beginning
    for take in (memory.verify, memory.read, memory.open, lambda: memory.copy_to(tmp_path / "copy")):
        with pytest.raises(ArtifactMismatch, match="cannot be read here"):
            take()


@pytest.mark.usefixtures("elsewhere")
def test_without_a_folder_for_temporary_files_it_cannot_be_kept(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    artifact = make(bus, tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(ArtifactUnavailable, match="cannot be kept here"):
        artifact.open()


@pytest.mark.usefixtures("elsewhere")
def test_other_bytes_of_one_bus_do_not_hide_those_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ArtifactServer._read
    with (
        Runtime(bind="tcp://127.0.0.1:*") as wrong,
        Runtime.connect(wrong.url, name="desk"),
        Runtime(bind="tcp://127.0.0.1:*") as broker,
        Runtime.connect(broker.url, name="desk") as desk,
    ):
        desk.start(Scribe)
        artifact = make(broker, tmp_path)
        monkeypatch.setattr(
            ArtifactServer,
            "_read",
            lambda self, wanted: read(self, wanted) if self is desk._node.artifacts else bytes(wanted.length),
        )
        assert artifact.read() == CONTENT
        with artifact.open() as file:
            assert file.read() == CONTENT


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("how", ["size", "async"])
def test_what_a_handler_fetches_ends_with_its_delegation(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:  # fmt: skip
    asked = threading.Event()
    monkeypatch.setattr(ArtifactServer, "serve", lambda *_: asked.set())
    ended: list[BaseException] = []
    read = Artifact.read if how == "async" else Artifact.open

    def reads(artifact: Artifact) -> Any:
        try:
            return read(artifact)
        except BaseException as error:
            ended.append(error)
            raise

    monkeypatch.setattr(Artifact, "read" if how == "async" else "open", reads)
    (tmp_path / "report").write_bytes(CONTENT)
    handle = bus.delegate(f"scribe.{how}", {"file": bus.artifact(tmp_path / "report")})
    assert asked.wait(10.0)
    handle.cancel()
    wait_until(lambda: bool(ended))
    assert isinstance(ended[0], ArtifactUnavailable)
    assert "has ended" in str(ended[0])
    assert FETCHERS
    assert all(not fetcher._waiting for fetcher in FETCHERS if isinstance(fetcher, ArtifactFetcher))


def test_an_event_loop_does_not_stand_still_while_an_artifact_of_an_answer_is_sealed(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    loops: list[bool] = []
    sealed = artifact_module.seal

    def seal(path: str | os.PathLike[str], is_wanted: Callable[[], bool]) -> Any:
        loops.append(asyncio._get_running_loop() is not None)
        return sealed(path, is_wanted)

    monkeypatch.setattr(artifact_module, "seal", seal)
    (tmp_path / "report").write_bytes(CONTENT)
    bus.start(Filler)
    Filler.filled.clear()
    full = bus.delegate("filler.fill")
    assert Filler.filled.wait(10.0)
    response = bus.delegate("scribe.name_async", {"path": str(tmp_path / "report")}).result(20.0)
    Filler.go_on.set()
    assert response.artifacts[0].size == len(CONTENT)
    assert loops == [False]
    assert full.result(20.0).ok


class Counter(BaseModel):
    count: int = 0


class Counting(Agent):
    """Names a file, and counts how often."""

    state: Counter

    @capability("counting.name")
    async def name(self, path: str, task: Task) -> Any:
        self.state.count += 1
        return task.respond(artifacts=[Artifact(path=path)])

    @capability("counting.count")
    def count(self) -> int:
        return self.state.count


def test_a_cancellation_ends_the_sealing_and_undoes_nothing(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    begun, go_on = threading.Event(), threading.Event()
    wanted: list[bool] = []
    sealed = Artifact.sealed

    def seal(artifact: Artifact, is_wanted: Callable[[], bool]) -> Artifact:
        begun.set()
        assert go_on.wait(20.0)
        wanted.append(is_wanted())
        return sealed(artifact, is_wanted)

    monkeypatch.setattr(Artifact, "sealed", seal)
    (tmp_path / "report").write_bytes(CONTENT)
    bus.start(Counting)
    handle = bus.delegate("counting.name", {"path": str(tmp_path / "report")})
    assert begun.wait(10.0)
    handle.cancel()
    assert handle.result(10.0).status == "CANCELLED"
    count = bus.delegate("counting.count")
    wait_until(lambda: bool(bus.agents()), what="the node has been told")
    go_on.set()
    assert count.result(10.0).data == 1
    assert wanted == [False]


def test_what_is_not_wanted_any_more_is_not_sealed(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(bytes(3 << 20))
    looks = iter([True, False])
    artifact = Artifact(path=str(tmp_path / "report"))
    assert artifact.sealed(lambda: next(looks)) is artifact
    assert next(looks, None) is None


@pytest.mark.usefixtures("elsewhere")
def test_closing_the_runtime_ends_what_it_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    monkeypatch.setattr(ArtifactServer, "serve", lambda *_: asked.set())
    caught: list[BaseException] = []

    def read() -> None:
        try:
            artifact.read()
        except BaseException as error:
            caught.append(error)

    with Runtime() as bus:
        bus.start(Scribe)
        artifact = make(bus, tmp_path)
        reader = threading.Thread(target=read)
        reader.start()
        assert asked.wait(10.0)
    reader.join(10.0)

    assert [type(error) for error in caught] == [Closed]


def test_an_event_loop_is_told_what_to_write(bus: Runtime, tmp_path: Path) -> None:
    artifact = make(bus, tmp_path)

    async def read() -> bytes:
        with pytest.raises(UsageError, match=r"await asyncio\.to_thread\(artifact\.open\)"):
            artifact.open()
        return await asyncio.to_thread(artifact.read)

    assert asyncio.run(read()) == CONTENT
    outcome = bus.delegate("scribe.blocking", {"file": artifact}).result(20.0)
    assert outcome.error is not None
    assert "asyncio.to_thread" in outcome.error.message


@pytest.mark.usefixtures("elsewhere")
def test_a_callback_of_a_handle_may_not_wait_for_it(tmp_path: Path) -> None:
    with Runtime(bind="tcp://127.0.0.1:*") as broker, Runtime.connect(broker.url) as bus:
        broker.start(Scribe)
        artifact, caught, done = make(bus, tmp_path), [], threading.Event()

        def read(_handle: object) -> None:
            try:
                artifact.read()
            except UsageError as error:
                caught.append(str(error))
            done.set()

        path = str(tmp_path / "other")
        bus.delegate("scribe.make", {"path": path}).add_done_callback(read)
        assert done.wait(20.0)
    assert caught == ["A callback of a handle runs in the receiving thread and must not wait: start a thread."] or (
        not caught
    )


@pytest.mark.parametrize("name", ["missing", "folder", "\udcff"])
def test_what_cannot_be_offered_is_refused(bus: Runtime, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    if name == "\udcff":
        (tmp_path / name).write_text("x")

    with pytest.raises((OSError, UsageError), match=r"missing|regular|directory|no text"):
        bus.artifact(tmp_path / name)


def test_off_the_bus_it_is_sealed_and_nobody_fetches_it(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(CONTENT)
    params = {"path": str(tmp_path / "report")}
    output = Scribe().execute(AgentInput(task_id="t1", agent="scribe", action="scribe.described", params=params))

    assert output.data == {"value": [len(CONTENT), None]}


@pytest.mark.usefixtures("elsewhere")
def test_a_disk_that_is_full_is_an_error_and_leaves_nothing(
    bus: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(small)], check=False, capture_output=True
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here")
    try:
        artifact = make(bus, tmp_path)
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        with pytest.raises(ArtifactUnavailable, match="cannot be kept here: No space left on device"):
            artifact.open()
        with pytest.raises(ArtifactUnavailable, match=r"cannot be kept as .*copy: No space left on device"):
            artifact.copy_to(small / "copy")
        assert list(small.iterdir()) == []
        assert artifact.read() == CONTENT
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("killed", ["broker", "node-1"])
def test_a_transfer_outlives_the_loss_of_the_broker_and_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:  # fmt: skip
    """The process is killed when the first chunk has come: the rest is asked of the next one."""
    node = NodeSpec("node-1", (AgentSpec("tests.runtime.test_artifacts:Scribe"),))
    with Cluster([node], drain=1.0) as cluster, Runtime.connect(cluster.url, name="desk") as bus:
        (tmp_path / "report").write_bytes(CONTENT * 20)
        artifact = make(bus, tmp_path, "offer")
        began, went_on = threading.Event(), threading.Event()
        answered = ArtifactFetcher.answered

        def slow(self: ArtifactFetcher, *args: Any) -> bool:
            if not began.is_set():  # three more are under way, and the others not asked for yet
                began.set()
                went_on.wait(20.0)
            return answered(self, *args)

        monkeypatch.setattr(ArtifactFetcher, "answered", slow)
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(artifact.read()))
        reader.start()
        assert began.wait(20.0)
        pid = cluster.signal(killed, signal.SIGKILL)
        went_on.set()
        reader.join(40.0)
        assert pid is not None
        assert found == [CONTENT * 20]


@pytest.mark.parametrize("take", [Artifact.open, Artifact.read, take_copy])
def test_without_a_bound_four_gigabytes_are_read_at_most(take: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "report"
    with file.open("wb") as large:
        large.truncate((4 << 30) + 1)  # a hole: it takes no room
    with pytest.raises(ArtifactTooLarge, match="has more than 4,294,967,296 bytes, and nobody said how many"):
        take(Artifact(path=str(file), sha256="0" * 64))


def test_a_copy_has_any_name_that_a_file_may_have_and_none_without_one(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_bytes(b"1234")
    artifact = Artifact.of(file)

    assert artifact.copy_to(tmp_path / ("n" * 250)).read_bytes() == b"1234"
    for wrong in (".", "/"):
        with pytest.raises(UsageError, match="this is a folder; add the name"):
            artifact.copy_to(wrong)
