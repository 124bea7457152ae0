"""Every code block of the README and of `docs/` does what the text says; `block.py` has the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.session import ETHER, run_document
from tests.support import REPOSITORY

WITHOUT_KEYS = f"""
import inspect, sys
from ether.cli.bus.up import up

if sys.argv[1:2] == ["up"] and "insecure" in inspect.signature(up).parameters:
    sys.argv.append("--insecure")
{ETHER}"""
"""The command for `lan.md`, whose bus has no keys: where such a one has to be allowed, it is."""
TORTURES = "cli.md"
"""Runs `ether torture`, whose delegators take the broker's clock to be early where its first word comes late."""
DOCUMENTS = [
    pytest.param(path, marks=[pytest.mark.alone] if path.name == TORTURES else [])
    for path in (REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md")))
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_document_does_what_it_says(document: Path, tmp_path: Path) -> None:
    run_document(document, tmp_path, WITHOUT_KEYS if document.name == "lan.md" else ETHER)
