"""A YAML document that knows where each of its values stands, for errors that point at them.

YAML 1.1, read with the safe loader: no tag makes anything but plain values. `on` and `yes` are booleans there, which
strict validation tells; a key that is written twice is an error, where YAML's own readers keep the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from ether.text_io.text_file import read_text
from ether_broker.errors import InvalidSpec
from ether_broker.text import printable

__all__ = ["Place", "YamlDocument"]

Key = str | int
_MOST: Final = 100_000
"""Values of a document; aliases of aliases can make more of a few lines than any machine can hold."""
_LARGEST: Final = 1 << 20
"""Bytes of a file."""
_DEEPEST: Final = 64
"""Levels of a document; PyYAML takes a level of Python's stack or several for each."""
_TOO_DEEP: Final = f"this is nested more than {_DEEPEST} deep."
_BEYOND: Final = 1 << 64
_LONGEST: Final = 64
"""Characters of a number."""
_WIDEST: Final = 60
"""Characters of the caret line at most."""


class Place(NamedTuple):
    """A place in a document: line and column, both from 1."""

    line: int
    column: int
    length: int
    """Characters, of the first line."""


class _BeyondBounds(yaml.MarkedYAMLError):
    """The nesting is too deep, or a number too large or too long."""

    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(None, None, problem, mark)


class _Loader(yaml.SafeLoader):
    """The safe loader; it gives up where the nesting is too deep, before Python does."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self._depth == _DEEPEST:
            mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _BeyondBounds(_TOO_DEEP, mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002  as it is called
        """As the safe loader; what a tag does not fit, as in `!!int x`, is an error of YAML."""
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            _, _, tag = node.tag.rpartition(":")
            raise yaml.constructor.ConstructorError(
                None, None, f"no !!{tag} can be read here.", node.start_mark
            ) from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        self._check_length(node)
        number: int = super().construct_yaml_int(node)
        if not -_BEYOND >> 1 <= number < _BEYOND:
            raise _BeyondBounds("a whole number has 64 bits at most.", node.start_mark)
        return number

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        self._check_length(node)
        number: float = super().construct_yaml_float(node)
        return number

    def _check_length(self, node: yaml.ScalarNode) -> None:
        # To read it takes longer than it is long: YAML 1.1 has numbers to the base of 60.
        if len(node.value) > _LONGEST:
            raise _BeyondBounds(f"a number has {_LONGEST} characters at most.", node.start_mark)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", getattr(_Loader, f"construct_yaml_{_kind}"))


class YamlDocument:
    """One document.

    Args:
        text: what was read.
        name: of the file, for errors.

    Raises:
        InvalidSpec: it is no YAML, has a key twice, or is nested more than 64 deep; the message points at it.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._lines = text.splitlines()
        self._keys: dict[tuple[Key, ...], yaml.Node] = {}
        self._values: dict[tuple[Key, ...], yaml.Node] = {}
        try:
            loader = _Loader(text)
            node = loader.get_single_node()
            if node is not None:
                self._index(node, ())
            self.data: Any = None if node is None else loader.construct_document(node)
            """Plain values."""
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(1, 1, 1) if mark is None else Place(mark.line + 1, mark.column + 1, 1)
            kind = "" if isinstance(error, _BeyondBounds) else "not YAML: "
            problem = f"{kind}{error.problem or error.context}"
            raise InvalidSpec(self.explain(place, problem)) from None
        except yaml.YAMLError as error:
            first, _, _ = str(error).partition("\n")
            raise InvalidSpec(f"{name}: not YAML: {first}.") from None

    @classmethod
    def read(cls, path: Path) -> YamlDocument:
        """Read a file.

        Raises:
            InvalidSpec: as the class; or the file cannot be read, has more than 1 MiB, or is not UTF-8.
        """
        try:
            return cls(read_text(path, _LARGEST), str(path))
        except OSError as error:
            module, _, last = str(path).rpartition(".")
            hint = f" An agent is written {module}:{last}." if module and last[:1].isupper() else ""
            raise InvalidSpec(f"{path} cannot be read: {error.strerror or error}.{hint}") from None
        except UnicodeDecodeError as error:
            raise InvalidSpec(f"{path} is not UTF-8 at byte {error.start}: save it as UTF-8.") from None
        except ValueError as error:
            raise InvalidSpec(f"{path} cannot be read: it has {error}.") from None

    def place(self, path: Sequence[Key], *, key: bool = False) -> Place:
        """Where the value at a path stands, or its key; where that is missing, what would hold it.

        Args:
            path: keys and indices from the top.
            key: the key rather than the value.
        """
        wanted = tuple(path)
        if key and wanted in self._keys:
            return _place(self._keys[wanted])
        while wanted and wanted not in self._values:
            wanted = wanted[:-1]
            if wanted in self._keys:  # the key of the mapping that lacks something says more than its first line
                return _place(self._keys[wanted])
        node = self._values.get(wanted)
        return Place(1, 1, 1) if node is None else _place(node)

    def explain(self, place: Place, problem: str) -> str:
        """The problem with file, line and column, and the line with a caret under it."""
        head = f"{self.name}:{place.line}:{place.column}: {problem}"
        if place.line > len(self._lines):
            return head
        line = self._lines[place.line - 1]
        start = max(0, place.column - 1 - _WIDEST) if len(line) > 2 * _WIDEST else 0
        shown = line[start : start + 2 * _WIDEST]
        before = printable(shown[: place.column - 1 - start])
        length = max(1, min(place.length, len(shown) - len(before), _WIDEST))
        margin = " " * len(str(place.line))
        return f"{head}\n  {place.line} | {printable(shown)}\n  {margin} | {' ' * len(before)}{'^' * length}"

    def _index(self, node: yaml.Node, path: tuple[Key, ...]) -> None:
        """Note where everything stands; an alias stands where its anchor does, and is not followed into itself."""
        left: list[tuple[yaml.Node, tuple[Key, ...], frozenset[int]]] = [(node, path, frozenset())]
        while left:
            node, path, above = left.pop()
            self._values[path] = node
            if len(path) > _DEEPEST:  # by way of aliases
                raise InvalidSpec(self.explain(_place(node), _TOO_DEEP))
            if len(self._values) > _MOST:
                raise InvalidSpec(f"{self.name} has more than {_MOST:,} values: is it the right file?")
            if id(node) in above:
                raise InvalidSpec(
                    self.explain(_place(node), "this holds itself: an alias must not name what it is in.")
                )
            inside = above | {id(node)}
            if isinstance(node, yaml.SequenceNode):
                left.extend((item, (*path, number), inside) for number, item in enumerate(node.value))
            elif isinstance(node, yaml.MappingNode):
                for key_node, value_node in node.value:
                    key = str(key_node.value)
                    if (*path, key) in self._keys:
                        first = _place(self._keys[(*path, key)])
                        raise InvalidSpec(
                            self.explain(
                                _place(key_node), f"{key!r} stands here a second time (first: line {first.line})."
                            )
                        )
                    self._keys[(*path, key)] = key_node
                    left.append((value_node, (*path, key), inside))


def _place(node: yaml.Node) -> Place:
    start, end = node.start_mark, node.end_mark
    length = end.column - start.column if end.line == start.line else 1 << 16
    return Place(start.line + 1, start.column + 1, max(1, length))
