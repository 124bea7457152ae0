"""The documentation as Sphinx builds it: without a warning, with the public names as its API reference and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

from tests.public import PUBLIC
from tests.support import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # ten seconds of a core that is shared with whoever else

OBJECTS = ("py:class", "py:data", "py:exception", "py:function")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)]
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # nobody
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_reference_has_exactly_the_public_names(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    # By their anchors: where a name is made is listed too, as another name of the same place.
    listed = {item.uri.partition("#")[2] for kind in OBJECTS for item in inventory.get(kind, {}).values()}

    assert sorted(inventory["py:module"]) == sorted(PUBLIC)
    assert sorted(listed) == sorted(f"{module}.{name}" for module, names in PUBLIC.items() for name in names)


def test_each_page_is_in_one_of_the_four_kinds(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")

    for kind in ("Tutorials", "How-to guides", "Reference", "Explanation"):
        assert f'<span class="caption-text">{kind}</span>' in index
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert page.stem == "index" or f'href="{page.stem}.html"' in index
