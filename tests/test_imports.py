from __future__ import annotations

import importlib
import tomllib
import types

import pytest

from tests.public import PUBLIC
from tests.support import REPOSITORY, run_python

# pydantic loads its plugins, and with them the metadata of all that is installed, when it builds the first model.
HEAVY = {
    "asyncio",
    "click",
    "ether.node.node",
    "ether_actors.execution",
    "ifaddr",
    "jinja2",
    "nats",
    "pydantic.plugin._loader",
    "rich",
    "sqlite3",
    "typer",
    "yaml",
    "zeroconf",
}


def test_importing_ether_brings_nothing_heavy() -> None:
    loaded = run_python("import ether, sys; print(*sys.modules)").split()

    assert "ether" in loaded
    assert sorted(HEAVY.intersection(loaded)) == []


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_a_public_module_exports_exactly_what_users_may_import(module: str) -> None:
    face = importlib.import_module(module)

    assert sorted(face.__all__) == sorted(PUBLIC[module])
    assert sorted(name for name in face.__all__ if not hasattr(face, name)) == []


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_a_public_module_has_no_name_beside_those_it_exports(module: str) -> None:
    # In a fresh interpreter, where no test has imported a submodule and so made it an attribute.
    public = set(
        run_python(f"import {module} as face; print(*(name for name in vars(face) if name[0] != '_'))").split()
    )
    face = importlib.import_module(module)
    own = {name for name in public if not _is_incidental(name, getattr(face, name))}

    assert sorted(own - PUBLIC[module] - PUBLIC["ether"]) == []


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_completion_knows_every_name_of_a_public_module(module: str) -> None:
    assert set(run_python(f"import {module} as face; print(*dir(face))").split()) >= PUBLIC[module]


def test_the_face_has_the_version_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert importlib.import_module("ether").__version__ == project["version"]


def test_each_command_of_the_package_can_be_called() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    for target in project["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name)), target


def _is_incidental(name: str, value: object) -> bool:
    """Whether Python put it there: a submodule that was imported, or the names that typing asks for."""
    submodule = isinstance(value, types.ModuleType) and value.__name__.endswith(f".{name}")
    return submodule or name in {"annotations", "TYPE_CHECKING"}
