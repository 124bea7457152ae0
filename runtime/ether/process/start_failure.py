"""The error of a child process that did not come up, and its reason."""

from __future__ import annotations

from collections.abc import Mapping

from ether.errors import ProcessFailed
from ether.process.child import describe_exit
from ether_broker.errors import EtherError

__all__ = ["error_of", "error_of_code", "unexplained"]


def unexplained(name: str, code: int, output: tuple[str, ...]) -> ProcessFailed:
    """The error of a child that ended before it had said anything."""
    said = f" It said: {output[-1].strip()}" if output else ""
    return ProcessFailed(
        f"{name} ended while it started ({describe_exit(code)}).{said}", name, exit=code, output=output
    )


def error_of(name: str, failed: Mapping[str, str]) -> EtherError:
    """A child's error as one of ours, with its own message."""
    kind = _kinds().get(failed["code"])
    message = f"{name}: {failed['message']}"
    if kind is None or kind is ProcessFailed:
        return ProcessFailed(message, name, output=tuple(failed["traceback"].splitlines()))
    return kind(message)


def error_of_code(code: str, message: str) -> EtherError:
    """Another process's error as one of ours; ProcessFailed if none has that code."""
    kind = _kinds().get(code)
    return ProcessFailed(message, "") if kind is None or kind is ProcessFailed else kind(message)


def _kinds() -> dict[str, type[EtherError]]:
    """{code: error}, of those that are made of a message alone."""
    found: dict[str, type[EtherError]] = {}
    left: list[type[EtherError]] = [EtherError]
    while left:
        kind = left.pop()
        left.extend(kind.__subclasses__())
        if kind.__init__ is EtherError.__init__:
            found[kind.code] = kind
    return found
