"""`ether schema`."""

from __future__ import annotations

import json
from pathlib import Path

from ether.cluster.file.file_loader import json_schema
from ether_broker.wire.json_schema import MODELS, schemas
from tests.cli.command import Command, table
from tests.support import REPOSITORY


def test_schemas_are_listed(alone: Command) -> None:
    assert [row[0] for row in table(alone("schema"))[1:]] == [*MODELS, "cluster-file"]


def test_one_is_printed_as_json(alone: Command) -> None:
    assert alone("schema", "delegation").json == schemas()["delegation"]


def test_all_are_one_document_in_json(alone: Command) -> None:
    assert alone("schema", "-o", "json").json == {**schemas(), "cluster-file": json_schema()}


def test_an_unknown_one_is_a_usage_error_with_the_nearest(alone: Command) -> None:
    done = alone("schema", "delegaton")

    assert done.code == 2
    assert "There is no schema 'delegaton'. Did you mean 'delegation'?" in done.err


def test_files_are_those_of_the_documentation(alone: Command, tmp_path: Path) -> None:
    done = alone("schema", "--write", str(tmp_path / "all"))
    alone("schema", "manifest", "--write", str(tmp_path / "one"))

    written = {path.name: path.read_bytes() for path in (tmp_path / "all").iterdir()}
    assert len(done.out.splitlines()) == len(written) + 1
    assert json.loads(written.pop("cluster-file.v1.json")) == json_schema()
    for name, content in written.items():
        assert content == (REPOSITORY / "docs" / "schemas" / name).read_bytes()
    (only,) = (tmp_path / "one").iterdir()
    assert only.read_bytes() == (tmp_path / "all" / "manifest.v1.json").read_bytes()
    assert json.loads(only.read_text(encoding="utf-8"))


def test_a_folder_that_cannot_be_written_is_one_line(alone: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    done = alone("schema", "--write", str(tmp_path / "file" / "below"))

    assert done.code == 1
    assert done.err.startswith("ether: os: ")
    assert done.err.count("\n") == 1


def test_the_schema_of_a_cluster_file_that_the_docs_have_is_the_one_that_is_written():
    assert json.loads((REPOSITORY / "docs/schemas/cluster-file.v1.json").read_text()) == json_schema()
