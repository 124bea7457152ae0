"""The cluster file: YAML, validated, with settings from flags and the environment on top.

    cluster: {name: default, bind: "tcp://*:7421", drain: 10}
    security: {keys: keys}
    access:
      delegate: [{who: "laptop*", what: "reviews.*"}]
      observe: "ops*"
    limits: {mailbox_count: 10000, window: 128}
    timing: {heartbeat: 1, silence: 3}
    nodes:
      - name: n1
        threads: 4
        agents:
          - "reviews:Editor"
          - {start: "reviews:Scout", count: 2, kwargs: {depth: 3}, restart: permanent}

A flag goes before the environment (`ETHER_CLUSTER__DRAIN=30`), and that before the file.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ether.cluster.cluster_spec import ClusterSpec, NodeSpec, ObserverSpec, journal_of
from ether.cluster.file.file_schema import START, AccessSection, ClusterFile
from ether.cluster.file.yaml_document import Place, YamlDocument
from ether.cluster.metrics_endpoint import MetricsSpec
from ether_broker.errors import InvalidEndpoint, InvalidSpec
from ether_broker.mailbox.mailbox_limits import Limits
from ether_broker.name_hint import nearest
from ether_broker.security.access_list import Access

__all__ = ["json_schema", "load", "of_agents"]

_PREFIX: Final = "ETHER_"
_MOST_KEYS: Final = 20
"""Keys of a mapping that a problem lists; none has more."""
_NOWHERE: Final = Place(0, 0, 0)
_EXAMPLES: Final = {"metrics": ", as in {port: 9464}", "scale": ", as in {max: 8}", "backoff": ", as in {initial: 0.5}"}
"""{key: how its mapping is written}"""


def load(
    path: Path | str, overrides: Mapping[str, Any] | None = None, *, environ: Mapping[str, str] | None = None
) -> ClusterSpec:
    """Read a cluster file.

    Args:
        path: of the file.
        overrides: {dotted key: value}, as from flags: `{"cluster.drain": 5.0}`; None is a flag that was not given.
        environ: default: the process's; only `ETHER_CLUSTER__…`, `ETHER_SECURITY__…`, `ETHER_LIMITS__…` and `ETHER_TIMING__…`
            are read.

    Raises:
        InvalidSpec: the file, a variable or an override is not valid; every problem is told with its place, the
            nearest valid key, and what would be right.
        InvalidEndpoint: the broker is to be advertised, and no other machine reaches its address.
    """
    document = YamlDocument.read(Path(path))
    return _Reader(document.data, document, overrides, environ).spec()


def of_agents(
    agents: Iterable[str],
    nodes: int = 1,
    overrides: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> ClusterSpec:
    """A cluster without a file: these agents (`module:Class`) on each of `nodes` nodes; the rest as `load`.

    Raises:
        InvalidSpec: as `load`; or an agent is not written `module:Class`.
    """
    specs = ClusterSpec.of(nodes, agents).nodes
    settings = _Reader({"nodes": [{"name": node.name} for node in specs]}, None, overrides, environ).file()
    return _spec(settings, specs, Path.cwd())


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a cluster file, for editors."""
    schema = ClusterFile.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Ether cluster file"}


class _Reader:
    """One file with what goes before it, and where each value came from."""

    def __init__(
        self,
        data: Any,
        document: YamlDocument | None,
        overrides: Mapping[str, Any] | None,
        environ: Mapping[str, str] | None,
    ) -> None:
        self._document = document
        self._origins: dict[tuple[str, ...], str] = {}
        """{path: the variable or flag that it was set by}"""
        self._data = {} if data is None else data
        if document is not None:
            _start_at(self._origin().parent, self._data)
        if isinstance(self._data, dict):
            for path, value, origin in (*_from_environment(environ), *_from_flags(overrides)):
                self._set(path, value, origin)

    def _set(self, path: tuple[str, ...], value: Any, origin: str) -> None:
        holder = self._data
        for part in path[:-1]:
            below = holder.setdefault(part, {})
            if not isinstance(below, dict):
                if holder is self._data:
                    return  # validation will say what is wrong with it
                below = holder[part] = {}
            holder = below
        holder[path[-1]] = value
        self._origins[path] = origin

    def file(self) -> ClusterFile:
        try:
            return ClusterFile.model_validate(self._data)
        except ValidationError as error:
            told = sorted(map(self._explain, error.errors(include_url=False)))
            raise InvalidSpec("\n".join(text for _, text in told)) from None

    def spec(self) -> ClusterSpec:
        file = self.file()
        nodes = tuple(
            NodeSpec(
                node.name,
                tuple(agent.spec() for agent in node.agents),
                node.threads,
                tuple(ObserverSpec(**dict(observer)) for observer in node.observers),
                None if node.metrics is None else MetricsSpec(**dict(node.metrics)),
            )
            for node in file.nodes
        )
        try:
            return _spec(file, nodes, self._origin())
        except (InvalidSpec, InvalidEndpoint) as error:
            name = self._document.name if self._document else ""
            raise type(error)(f"{name}: {error}") from None

    def _origin(self) -> Path:
        """Where the cluster comes from: the path of its file, or the working directory.

        Links are kept, as they may lead elsewhere tomorrow; but where the path has `..`, the folder of the file is resolved.
        """
        if self._document is None:
            return Path.cwd()
        path = Path(self._document.name).absolute()
        return path.parent.resolve() / path.name if ".." in path.parts else path

    def _explain(self, problem: Any) -> tuple[Place, str]:
        """One problem in words, and where it is."""
        path: tuple[str | int, ...] = problem["loc"]
        is_unknown = problem["type"] == "extra_forbidden"
        where = ".".join(map(str, path[:-1] if is_unknown else path)) or "the file"
        if is_unknown:
            hint = _place_of(str(path[0])) if len(path) == 1 else ""
            said = f"{where} has no key {path[-1]!r}{hint or f'.{nearest(str(path[-1]), _keys_at(path[:-1]), _MOST_KEYS)}'}"
        elif problem["type"] == "missing":
            said = f"{where} is missing."
        else:
            said = f"{where}: {_plain(problem)}"
        origin = self._origins.get(path)  # type: ignore[arg-type]
        if origin is not None or self._document is None:
            return _NOWHERE, f"{origin}: {said}" if origin else said
        place = self._document.place(path, key=is_unknown)
        return place, self._document.explain(place, said)


def _start_at(folder: Path, data: Any) -> None:
    """Paths of a file start where it is, not where the command was called."""
    security = data.get("security") if isinstance(data, dict) else None
    if isinstance(security, dict) and isinstance(security.get("keys"), str):
        security["keys"] = str(folder / Path(security["keys"]).expanduser())


def _plain(problem: Any) -> str:
    """What pydantic says, with the value, and in our words where its own would help nobody."""
    value, shown = problem["input"], _shown(problem["input"])
    match problem["type"]:
        case "value_error":
            return str(problem["ctx"]["error"])
        case "string_pattern_mismatch" if problem["ctx"]["pattern"] == START:
            return f"{shown} is no agent: write module:Class, as in 'reviews:Scout'."
        case "literal_error":
            wanted = problem["ctx"]["expected"].replace("'", "")
            hint = nearest(str(value), re.split(", | or ", wanted))
            return f"{shown} is not one of {wanted}.{hint}"
        case "model_type" | "dict_type":
            example = _EXAMPLES.get(problem["loc"][-1], "") if problem["loc"] else ""
            return f"keys and values go here{example}."
        case "too_short":
            return "give at least one."
        case _:
            message = str(problem["msg"]).removeprefix("Input ").rstrip(".")
            given = f" (it is {shown})" if isinstance(value, str | int | float | bool | None) else ""
            return f"{message}{given}."


def _shown(value: Any) -> str:
    try:
        return repr(value)[:80]
    except ValueError:  # Python prints no number of so many digits
        return "a number of too many digits"


@functools.cache
def _schema() -> dict[str, Any]:
    return ClusterFile.model_json_schema()


def _keys_at(path: Iterable[str | int]) -> list[str]:
    """The keys that a mapping of the file may have, as the JSON Schema says."""
    found = schema = _schema()
    for part in path:
        found = found["items"] if isinstance(part, int) else found["properties"][part]
        for kind in (found, *found.get("anyOf", ())):
            if "$ref" in kind:
                found = schema["$defs"][kind["$ref"].rpartition("/")[2]]
    return list(found["properties"])


def _place_of(key: str) -> str:
    """Where a key belongs that stands beside the sections, as the end of an error message; "" if nowhere."""
    section = next((section for section in _SETTINGS if key in _keys_at([section])), None)
    if section is not None:
        return f": it belongs to {section}, as in {section}: {{{key}: …}}."
    return f": it belongs to a node, as in nodes: [{{name: n1, {key}: …}}]." if key in _keys_at(["nodes", 0]) else ""


def _from_environment(environ: Mapping[str, str] | None) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for name, text in sorted((os.environ if environ is None else environ).items()):
        if not name.startswith(_PREFIX):
            continue
        section, _, key = name.removeprefix(_PREFIX).lower().partition("__")
        if section not in _SETTINGS or not key:
            _refuse_like_a_setting(name, section, key)
            continue
        path = (section, *key.split("__"))
        yield path, _scalar(path, text), name


def _refuse_like_a_setting(name: str, section: str, key: str) -> None:
    """Refuse a variable that is meant for a setting and names none; others are for somebody else."""
    begun = next((known for known in _SETTINGS if section == known or section.startswith(f"{known}_")), None)
    if begun is not None and not key:
        wanted = section.removeprefix(begun).lstrip("_").upper() or "KEY"
        raise InvalidSpec(f"{name} sets nothing: write {_PREFIX}{begun.upper()}__{wanted}.")
    hint = nearest(section, _SETTINGS)
    if key and section in ClusterFile.model_fields:
        raise InvalidSpec(f"{name}: {section} stands in the cluster file; the environment sets {', '.join(_SETTINGS)}.")
    if key and hint.startswith(" Did you mean"):
        raise InvalidSpec(f"{name}: there is no section {section!r}.{hint}")


def _from_flags(overrides: Mapping[str, Any] | None) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for key, value in (overrides or {}).items():
        if value is not None:
            yield tuple(key.split(".")), value, f"--{key.rpartition('.')[2]}"


def _scalar(path: tuple[str, ...], text: str) -> Any:
    """What a variable's text means for its key; the text itself where it means nothing, which validation tells."""
    found = _SETTINGS[path[0]]
    for part in path[1:]:
        if part not in getattr(found, "model_fields", ()):
            return text
        found = found.model_fields[part].annotation
    try:
        return TypeAdapter(found).validate_strings(text)
    except ValidationError:
        return text


def _spec(file: ClusterFile, nodes: tuple[NodeSpec, ...], origin: Path) -> ClusterSpec:
    fields = dict(file.cluster)
    journal = journal_of(fields.pop("durability"), fields.pop("journal"), file.cluster.name, origin)
    return ClusterSpec(
        nodes,
        keys=file.security.keys,
        insecure=file.security.insecure,
        access=_access(file.access),
        limits=Limits(**dict(file.limits)),
        timing=file.timing.timing(),
        journal=journal,
        backoff=fields.pop("backoff").backoff(),
        **fields,
    )


def _access(section: AccessSection | None) -> Access | None:
    if section is None:
        return None
    fields = section.model_dump(by_alias=True)
    administer = fields.pop("administer")
    return Access.of({**fields, **administer})


_SETTINGS: Final[dict[str, Any]] = {
    name: ClusterFile.model_fields[name].annotation for name in ("cluster", "security", "limits", "timing")
}
"""{section whose keys variables may set: its model}."""
