"""The folders of the three layers: docs/design.md's list of them, and what each says of its imports."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.docs.glossary import BEGIN, DESIGN, Source, sources
from tests.support import REPOSITORY

ROOTS: Final = ("runtime/ether", "actors/ether_actors", "broker/ether_broker")
TESTS: Final = {Path(root).name: REPOSITORY / "tests" / Path(root).parent for root in ROOTS}
OTHER_LAYERS: Final = {
    "ether": ("the layers below", ""),
    "ether_actors": ("the layer below", "the layer above"),
    "ether_broker": ("", "the layers above"),
}


def folders() -> dict[str, str]:
    """Each folder of the product below a root: {its package: its docstring}."""
    return {
        module: ast.get_docstring(source.tree) or ""
        for module, source in sources().items()
        if source.path.name == "__init__.py" and "." in module
    }


def imported(source: Source) -> Iterator[str]:
    """The modules of the product that a module imports, wherever in it, for its types too, or by a name `module:object`."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in sources())
        elif isinstance(node, ast.ImportFrom) and node.module in sources():
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in sources() else node.module
        elif isinstance(node, ast.Constant) and re.fullmatch(r"[\w.]+:\w+", str(node.value)):
            name = str(node.value).partition(":")[0]
            if name in sources():
                yield name


def package_of(module: str) -> str:
    """The folder that a module is in; one that stands beside the folders of a layer counts as a package of its own."""
    folder = module.rpartition(".")[0]
    return module if sources()[module].path.name == "__init__.py" or "." not in folder else folder


@functools.cache
def imports() -> frozenset[tuple[str, str]]:
    """Each pair of packages of which the first imports the second."""
    pairs = (
        (package_of(module), package_of(name)) for module, source in sources().items() for name in imported(source)
    )
    return frozenset((one, other) for one, other in pairs if one != other)


def listed(packages: set[str], layer: str, other_layers: str) -> str:
    """Packages as a docstring lists them.

    Those of its own layer in the order of their names, each without the folders inside it; then other layers as a whole.
    """
    own = sorted(package for package in packages if package.partition(".")[0] == layer)
    names = [f"`{package.removeprefix(f'{layer}.')}`" for package in own]
    return ", ".join([*names, other_layers] if len(own) < len(packages) else names) or "none"


def rule_of(folder: str) -> str:
    """The last paragraph of a folder's docstring, as its imports are."""
    layer = folder.partition(".")[0]
    below, above = OTHER_LAYERS[layer]
    may = listed({other for one, other in imports() if one == folder}, layer, below)
    used = listed({one for one, other in imports() if other == folder}, layer, above)
    return f"May import: {may}. Used by: {used}."


def test_each_folder_of_code_is_a_package_that_says_what_lives_there() -> None:
    code = {file.parent for root in ROOTS for file in (REPOSITORY / root).rglob("*.py")}
    assert [str(folder) for folder in sorted(code) if not Path(folder, "__init__.py").exists()] == []
    assert [folder for folder, docstring in folders().items() if not docstring] == []


def test_the_design_lists_each_folder_and_nothing_else_in_the_words_of_its_docstring() -> None:
    packages = DESIGN.read_text().partition(BEGIN)[0]  # the glossary has modules too
    rows = re.findall(r"^\| `(ether[\w.]+)` \| (.+) \|$", packages, re.MULTILINE)
    assert dict(rows) == {folder: docstring.splitlines()[0] for folder, docstring in folders().items()}


def test_the_design_lists_the_planned_packages_as_the_layers_of_import_linter_do() -> None:
    linted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = " ".join(layer for contract in linted for layer in contract.get("layers", ()))
    table = DESIGN.read_text().partition("| planned package |")[2].partition("\n\n")[0]
    planned = [package for package in re.findall(r"\((\w+)\)", layers) if f"ether.{package}" not in folders()]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == planned


def test_the_tests_of_each_package_stand_in_a_folder_of_its_name() -> None:
    packages = [package.split(".") for package in folders() if package.count(".") == 1]
    places = {package: [TESTS[layer] / package, REPOSITORY / "tests" / package] for layer, package in packages}
    assert [package for package, ways in places.items() if not any(place.is_dir() for place in ways)] == []


def test_each_folder_imports_what_it_says_and_is_used_by_whom_it_says_and_by_nobody_else() -> None:
    said = {folder: " ".join(docstring.rpartition("\n\n")[2].split()) for folder, docstring in folders().items()}
    assert said == {folder: rule_of(folder) for folder in folders()}
