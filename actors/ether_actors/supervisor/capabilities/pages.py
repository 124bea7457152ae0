"""Lists in pages: what one answer of the bus about itself carries, whatever there is in all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ether_broker.envelope.payload import Payload, pack
from ether_broker.errors import InvalidEnvelope
from ether_broker.text import brief

__all__ = ["LIMIT", "Place", "page", "text", "whole"]

LIMIT: Final = 250
"""Items of a page at most, and without `limit`."""
_ROOM: Final = 256 << 10
"""Bytes of a page's items, unless its first alone has more; a manifest may have as many."""
_EXAMINED: Final = 1_000
"""What one page looks at: there may be many that are not to be listed."""

Place = bytes | int | str


def page(
    rows: Iterable[tuple[Place, dict[str, Any] | None]], params: dict[str, Any], *,
    is_over: Callable[[], bool] = lambda: False,
) -> Payload:  # fmt: skip
    """The next page of a list: its `items`, and `next`, which is to be `after` of the question for the one after it.

    Costs no more than the page, if the rows do not. A page may have no items and a `next` all the same; None ends the list.

    Args:
        rows: behind `after`, made as they are asked for: (cursor, item); item None: skipped.
        params: of the question; `limit` is taken from it.
        is_over: whether the page has cost enough, asked after each item.

    Raises:
        InvalidEnvelope: `limit` is no whole number, or 0.
    """
    limit = min(LIMIT, whole(params, "limit", LIMIT, least=1))
    items: list[bytes] = []
    room = _ROOM
    last: Place | None = None
    following: Place | None = None
    for examined, (cursor, item) in enumerate(rows):
        packed = b"" if item is None else pack(item)
        if len(items) == limit or examined == _EXAMINED or (items and len(packed) > room):
            following = last
            break
        if packed:
            items.append(packed)
        room -= len(packed)
        last = cursor
        if items and is_over():
            following = last
            break
    head = pack({"next": following, "items": [None] * len(items)})
    return Payload(head[: len(head) - len(items)] + b"".join(items))


def whole(params: dict[str, Any], name: str, default: int | None, *, least: int = 0) -> int:
    """A whole number of a question's params.

    Raises:
        InvalidEnvelope: it is none, below `least`, or missing without a default.
    """
    value = params.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        msg = f"params.{name} is {brief(value)} and has to be a whole number, {least} or more."
        raise InvalidEnvelope(msg)
    return value


def text(params: dict[str, Any], name: str) -> str | None:
    """A text of a question's params, or None without it.

    Raises:
        InvalidEnvelope: it is none.
    """
    value = params.get(name)
    if value is not None and not isinstance(value, str):
        msg = f"params.{name} is {brief(value)} and has to be a text."
        raise InvalidEnvelope(msg)
    return value
