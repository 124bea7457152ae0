"""Artifacts: what is sealed, and what is found out when it is taken in."""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from ether_broker.envelope.artifact import Artifact, ArtifactSource
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import ArtifactMismatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.md"
    path.write_bytes(b"# Report\n" * 300_000)
    return path


def test_a_sealed_file_is_read_copied_and_verified(file: Path, tmp_path: Path):
    artifact = Artifact.of(file)
    copy = tmp_path / "copy.md"
    copy.write_text("was here before")

    assert artifact.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert artifact.size == file.stat().st_size
    assert artifact.verify() is artifact
    assert artifact.read() == file.read_bytes()
    assert artifact.copy_to(copy) == copy
    assert copy.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("sha256", [None, "0" * 64, "\x1b" * 900_000])
@pytest.mark.parametrize("sign", ["\x1b", "a/"])
def test_an_error_has_little_of_a_path_as_long_as_an_envelope(sign: str, sha256: str | None):
    artifact = Artifact(path=450_000 * sign, sha256=sha256)

    with pytest.raises(ArtifactMismatch) as caught:
        artifact.read()
    assert len(str(caught.value)) < 15_000


@pytest.mark.parametrize("show", [repr, str, "{}".format, ascii])
def test_the_key_is_not_shown(show: Callable[[object], str]):
    artifact = Artifact(path="/a", source=ArtifactSource(node="n", file="1-2", key="5ec8e7"))
    response = Response(request_id=str(uuid4()), from_agent="a", status=Status.COMPLETED, artifacts=[artifact])

    for holder in (artifact, artifact.source, response, {"of": artifact}):
        assert "file='1-2'" in show(holder)
        assert "5ec8e7" not in show(holder)
    assert Artifact.parse(artifact.model_dump()) == artifact, "which travels all the same"
    assert "5ec8e7" in artifact.model_dump_json()


@pytest.mark.parametrize("change", [b"# Report\n" * 299_999 + b"# reporT\n", b"", b"# Report\n" * 300_000 + b"x"])
def test_a_changed_file_is_found_out_and_nothing_of_it_taken_in(file: Path, tmp_path: Path, change: bytes):
    artifact = Artifact.of(file)
    file.write_bytes(change)
    copy = tmp_path / "copy.md"
    copy.write_text("was here before")

    for take in (artifact.verify, artifact.read, lambda: artifact.copy_to(copy)):
        with pytest.raises(ArtifactMismatch, match="is not what was sealed") as caught:
            take()
        assert (caught.value.expected, caught.value.path) == (artifact.sha256, str(file))
        assert caught.value.found in {None, hashlib.sha256(change).hexdigest()}
        assert caught.value.found_size == len(change)

    assert copy.read_text() == "was here before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.md", "report.md"]


def test_a_size_that_does_not_fit_the_digest_is_found_out(file: Path):
    artifact = Artifact.of(file).model_copy(update={"size": 1})

    with pytest.raises(ArtifactMismatch, match="what was sealed: 1 bytes"):
        artifact.verify()


def test_a_missing_file_is_a_mismatch_and_root_says_where_it_is(file: Path, tmp_path: Path):
    artifact = Artifact.of(file).model_copy(update={"path": "report.md"})

    with pytest.raises(ArtifactMismatch, match=r"cannot be read here.*`root`") as caught:
        artifact.verify(root=tmp_path / "elsewhere")
    assert caught.value.found is None

    assert artifact.read(root=tmp_path) == file.read_bytes()
    assert artifact.copy_to(tmp_path / "copy.md", root=tmp_path).exists()


def test_a_path_that_would_write_to_a_terminal_is_written_out_in_errors(tmp_path: Path):
    path = tmp_path / "\x1b[31m\nx"
    path.write_text("first")
    artifact = Artifact.of(path)
    path.write_text("other")
    with pytest.raises(ArtifactMismatch, match=r"/\\x1b\[31m\\nx is not what was sealed: "):
        artifact.verify()
    path.unlink()
    with pytest.raises(ArtifactMismatch, match=r"/\\x1b\[31m\\nx cannot be read here: "):
        artifact.verify()


def test_a_mode_as_of_open_is_not_taken_for_the_folder(file: Path):
    artifact = Artifact.of(file)

    for call in (artifact.open, artifact.read, artifact.verify, lambda mode: artifact.copy_to("copy.md", mode)):
        with pytest.raises(TypeError, match="positional argument"):
            call("r")  # type: ignore[operator]


def test_what_was_never_sealed_is_not_taken_in(file: Path):
    made = f"has no digest: make it with bus.artifact({str(file)!r}) or Artifact.of({str(file)!r})."
    with pytest.raises(ArtifactMismatch, match=re.escape(made)):
        Artifact(path=str(file)).read()


def test_a_response_is_verified_with_all_its_artifacts(file: Path, tmp_path: Path):
    other = tmp_path / "other.md"
    other.write_text("other")
    artifacts = (Artifact.of(file), Artifact.of(other))
    response = Response(request_id="", status=Status.COMPLETED, artifacts=artifacts)

    assert response.verify() is response
    other.write_text("changed")
    with pytest.raises(ArtifactMismatch, match=r"other\.md"):
        response.verify()


def test_a_mismatch_survives_pickling():
    error = pickle.loads(pickle.dumps(ArtifactMismatch("m", "p", "e", "f")))

    assert (str(error), error.path, error.expected, error.found) == ("m", "p", "e", "f")
