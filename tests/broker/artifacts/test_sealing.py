"""Sealing: what is sealed, and what is left as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ether_broker.envelope.artifact import Artifact
from ether_broker.errors import ArtifactMismatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.md"
    path.write_bytes(b"# Report\n" * 300_000)
    return path


def test_what_is_no_file_is_not_read_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    sealed = Artifact(path=str(tmp_path / "pipe"), sha256="0" * 64)

    for path in ("pipe", "."):
        with pytest.raises(OSError):
            Artifact.of(tmp_path / path)
        with pytest.raises(ArtifactMismatch):
            sealed.model_copy(update={"path": str(tmp_path / path)}).read()


def test_sealing_takes_what_is_there_and_leaves_the_rest(file: Path):
    sealed = Artifact(path=str(file)).sealed()

    assert sealed == Artifact.of(file)
    file.write_bytes(b"changed")
    assert sealed.sealed() is sealed
    for path in ("https://example.org/a.md", "no/such/file.md", "a\0b", "x" * 5_000):
        assert Artifact(path=path).sealed() == Artifact(path=path)
