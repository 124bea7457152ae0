"""The parameters of a delegation, as they stand on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ether.text_io.text_file import read_text
from ether_broker.errors import UsageError

__all__ = ["collect_params", "read_json", "read_pairs", "read_value"]

_MOST: Final = 16 << 20
"""Bytes of a file of parameters."""


def collect_params(whole: str | None, pairs: Sequence[str], free: Sequence[str]) -> dict[str, Any]:
    """Put the parameters together; what stands alone counts more than the same in `--params`.

    Args:
        whole: of `--params`.
        pairs: `name=value`, of `--param`.
        free: options that the command has not, `--max-depth 3` for `max_depth`; without a value it is true.

    Raises:
        UsageError: one of them cannot be read, or is given twice.
    """
    params: dict[str, Any] = {}
    if whole is not None:
        found = read_json(whole, "--params")
        if not isinstance(found, dict):
            raise UsageError(f"--params is {_kind(found)} and has to be an object, such as '{{\"name\": 1}}'.")
        params = found
    alone: dict[str, Any] = {}
    for name, value in (*read_pairs(pairs, "--param", "path=src").items(), *_free(free)):
        if name in alone:
            raise _twice(name)
        alone[name] = value
    return {**params, **alone}


def read_pairs(pairs: Sequence[str], option: str, example: str) -> dict[str, Any]:
    """What an option says that is given as `name=value`, several times.

    Raises:
        UsageError: one is not written so, or is given twice.
    """
    found: dict[str, Any] = {}
    for text in pairs:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} {text!r} is no NAME=VALUE, such as {option} {example}.")
        if name in found:
            raise _twice(name) if option == "--param" else UsageError(f"{option} {name} is given twice.")
        found[name] = _value(value)
    return found


def read_value(text: str, option: str) -> Any:
    """Read JSON as `read_json`; what stands there itself and is no JSON is text.

    Raises:
        UsageError: as `read_json`, of a file or stdin.
    """
    return read_json(text, option) if text == "-" or text.startswith("@") else _value(text)


def read_json(text: str, option: str) -> Any:
    """Read JSON from the text itself, from `@FILE`, or for `-` from stdin.

    Raises:
        UsageError: the file cannot be read, or what is there is not JSON; the message has line and column.
    """
    source = option
    if text == "-":
        text, source = sys.stdin.read(), f"{option} (stdin)"
    elif text.startswith("@"):
        path = Path(text[1:])
        source = str(path)
        try:
            text = read_text(path, _MOST)
        except (OSError, ValueError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
            raise UsageError(f"{option} cannot read {path}: {reason}.") from error
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(f"{source} is nested deeper than can be read.") from None
    except ValueError as error:
        where = f"{error.lineno}:{error.colno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else error
        raise UsageError(f"{source} is not JSON: {where}.") from error


def _twice(name: str) -> UsageError:
    return UsageError(f"Parameter {name} is given twice: for a list write --param '{name}=[…]'.")


def _free(words: Sequence[str]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            raise UsageError(f"{word!r} is too much: parameters are --name VALUE, or --param NAME=VALUE.")
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        found.append((name.replace("-", "_"), _value(value)))
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
