"""The glossary of docs/design.md: every class and module that a folder shows to others, with its docstring's first sentence.

`python -m tests.docs.glossary` regenerates it; a test compares.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.public import PUBLIC
from tests.support import REPOSITORY

__all__ = ["BEGIN", "DESIGN", "Row", "Source", "glossary", "modules", "rows", "sources"]

ROOTS: Final = ("runtime", "actors", "broker")
DESIGN: Final = REPOSITORY / "docs/design.md"
BEGIN: Final = "## Glossary\n"
_CLASSES: Final = (
    "The classes that a folder shows to others, and where each stands. The errors are all in `ether_broker.errors`.\n"
)
_MODULES: Final = "The modules that a folder shows to others, and what is in each.\n"


class Source(NamedTuple):
    """A module of the product."""

    path: Path
    tree: ast.Module

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """Its classes, private ones too."""
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))


class Row(NamedTuple):
    """A line of the glossary."""

    name: str
    module: str
    meaning: str


@functools.cache
def sources() -> dict[str, Source]:
    """Each module by its name."""
    found = {}
    for root in ROOTS:
        for path in sorted((REPOSITORY / root).rglob("*.py")):
            parts = path.relative_to(REPOSITORY / root).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = Source(path, ast.parse(path.read_text()))
    return found


def rows() -> list[Row]:
    """The classes that are imported from another folder, or may be by users; in the order of the names."""
    shown = _shown()
    public = {name for names in PUBLIC.values() for name in names}
    found = [
        Row(one.name, module, _first_sentence(one))
        for module, source in sources().items()
        if module != "ether_broker.errors"
        for one in source.classes
        if (module, one.name) in shown or (one.name in public and not one.name.startswith("_"))
    ]
    return sorted(found, key=lambda row: (row.name.lower(), row.module))


def modules() -> dict[str, str]:
    """{module that another folder imports from, or users may: what is in it}."""
    shown = {module for module, _ in _shown()} | set(PUBLIC)
    return {module: _first_sentence(source.tree) for module, source in sources().items() if module in shown}


def glossary() -> str:
    """The section of the page."""
    classes = [f"| `{row.name}` | `{row.module}` | {row.meaning} |" for row in rows()]
    parts = [f"| `{module}` | {meaning} |" for module, meaning in modules().items()]
    return (
        "\n".join([BEGIN, _CLASSES, "| name | module | meaning |", "|---|---|---|", *classes, ""])
        + "\n".join(["", _MODULES, "| module | what is in it |", "|---|---|", *parts, ""])
    )  # fmt: skip


def _shown() -> set[tuple[str, str]]:
    """(module, name) of each import from another folder."""
    known = sources()
    return {
        (node.module, alias.name)
        for source in known.values()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.module in known
        if known[node.module].path.parent != source.path.parent
        for alias in node.names
    }


def _first_sentence(one: ast.ClassDef | ast.Module) -> str:
    first = (ast.get_docstring(one) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.;])\s", first, maxsplit=1)[0].rstrip(".;")
    return sentence.replace("|", "\\|")


if __name__ == "__main__":
    text = DESIGN.read_text()
    DESIGN.write_text(text.split(BEGIN, maxsplit=1)[0] + glossary())
