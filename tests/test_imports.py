from __future__ import annotations

import importlib
import tomllib
import types

from tests.support import REPOSITORY, run_python

HEAVY = {"asyncio", "click", "ifaddr", "jinja2", "nats", "rich", "sqlite3", "typer", "yaml", "zeroconf"}


def test_importing_ether_brings_nothing_heavy() -> None:
    loaded = run_python("import ether, sys; print(*sys.modules)").split()

    assert "ether" in loaded
    assert sorted(HEAVY.intersection(loaded)) == []


def test_every_public_name_of_the_face_is_exported() -> None:
    # In a fresh interpreter, where no test has imported a submodule and so made it an attribute.
    public = set(run_python("import ether; print(*(name for name in vars(ether) if name[0] != '_'))").split())
    face = importlib.import_module("ether")
    own = {name for name in public if not _is_incidental(name, getattr(face, name))}

    assert sorted(own - set(face.__all__)) == []


def test_every_exported_name_exists_once_and_is_public() -> None:
    face = importlib.import_module("ether")

    assert sorted(name for name in face.__all__ if not hasattr(face, name)) == []
    assert len(face.__all__) == len(set(face.__all__))
    assert [name for name in face.__all__ if name[0] == "_" and name != "__version__"] == []


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
    submodule = isinstance(value, types.ModuleType) and value.__name__ == f"ether.{name}"
    return submodule or name in {"annotations", "TYPE_CHECKING"}
