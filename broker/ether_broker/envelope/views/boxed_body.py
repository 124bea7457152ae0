"""A body where a vocabulary demands a dict: one that is none stands as the value of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ether_broker.encoding.frozen import thaw
from ether_broker.envelope.views.view import BARE, RESERVED

__all__ = ["boxed", "unboxed"]

_VALUE: Final = "value"


def boxed(body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A body as a dict with text keys, and, when it was none, a residue in its home that says so."""
    if body is None:
        return {}, {}
    if isinstance(body, Mapping) and all(isinstance(key, str) for key in body):
        return thaw(body), {}
    return {_VALUE: thaw(body)}, {RESERVED: {BARE: True}}


def unboxed(data: Mapping[str, Any] | None, *, bare: bool) -> Any:
    """The body of a view's dict; `bare` tells whether it stands as the value of one."""
    return thaw(data[_VALUE]) if bare and data and data.keys() == {_VALUE} else thaw(data)
