"""The names of a delegation as people write them: a number, a request id or its beginning, another system's id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from ether_broker.envelope.ids import foreign_id

__all__ = ["Identifier", "bounds_of"]

_NUMBER: Final = re.compile(r"#?([1-9]\d{0,17})")
_HEX: Final = re.compile(r"[0-9a-fA-F-]*[0-9a-fA-F][0-9a-fA-F-]*")
_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Identifier:
    """One of them."""

    text: str
    number: int | None
    """Of an entry; None for a request id."""
    bounds: tuple[bytes, bytes]
    """The lowest and the highest request id that are meant."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read it; there is no text that would be wrong.

        Digits alone are a number unless they begin with a zero, as the request ids of our days do. Hexadecimal digits are
        the begin of a request id. Anything else is an id of another system (`ids.foreign_id`).
        """
        text = text.strip()
        if match := _NUMBER.fullmatch(text):
            return cls(text, int(match[1]), (b"", b""))
        digits = text.replace("-", "").lower()
        if _HEX.fullmatch(text) and len(digits) <= _DIGITS:
            return cls(text, None, bounds_of(digits))
        exact = foreign_id(text)
        return cls(text, None, (exact, exact))


def bounds_of(digits: str) -> tuple[bytes, bytes]:
    """The lowest and the highest request id that begin with these hexadecimal digits, 32 at most."""
    return bytes.fromhex(digits.ljust(_DIGITS, "0")), bytes.fromhex(digits.ljust(_DIGITS, "f"))
