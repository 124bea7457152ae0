"""The base of the views: conversion that loses nothing, whatever a vocabulary has no words for.

A view says what an envelope says as far as its vocabulary has the words: in `words` those that are but another name, and in
two methods of each view the others:

    view ── _fields ──▶ envelope        what is lost is kept in the envelope's `extensions[vocabulary]`
    view ◀── _document ── envelope      what is lost is kept under the view's key `ether`

Neither need be exact. Whatever is different after going there and back is the residue, and travels where the
right column says. A document that came from elsewhere has none under `ether`, and an envelope that says no
more than the view can leaves none there: the spec's examples stay word for word what they are. Of every view
and every envelope:

    View.from_x(view.to_x()) == view        View.from_x(envelope).to_x() == envelope

Bytes and keys that are no text survive in Python and in msgpack, not in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeVar

from ether_broker.encoding.frozen import freeze, thaw
from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.model import Model
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.envelope.views.lossless import difference, patch, pieces, same
from ether_broker.errors import EtherError, InvalidEnvelope
from ether_broker.name_hint import nearest

__all__ = ["BARE", "RESERVED", "RequestView", "ResponseView", "View", "plain", "plain_values", "read"]

RESERVED: Final = "ether"
"""The key of a view that has what the vocabulary cannot say."""
BARE: Final = "bare"
"""In the residue: the body is no dict, and stands as the one value of one (`{"value": …}`)."""

_E = TypeVar("_E", bound=Model)


def plain(envelope: Model) -> dict[str, Any]:
    """The envelope's fields that are not at their default, by alias, in plain values; a status by name."""
    return plain_values(envelope.model_dump(by_alias=True, exclude_defaults=True))  # type: ignore[no-any-return]


def read(kind: type[_E], fields: Mapping[str, Any]) -> _E:
    """Make an envelope of what `plain` gave.

    Raises:
        InvalidEnvelope: the fields do not fit (for a manifest, InvalidManifest).
    """
    status = fields.get("status")
    if isinstance(status, str):
        if status not in Status.__members__:
            raise InvalidEnvelope(f"{status!r} is no status code.{nearest(status, Status.__members__)}")
        fields = {**fields, "status": Status[status]}
    return kind.parse(fields)


def _agree(one: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    return same(one.get(name, _MISSING), other.get(name, _MISSING))


_MISSING: Final = object()
_MOST_COMPARED: Final = 65_536
"""Values that are compared to find what is left of a kept spelling: about 0.1 s."""


def _size(value: Any) -> int:
    """How many values there are in one, with itself."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def plain_values(value: Any) -> Any:
    """A copy in dicts, lists and what they hold; a status by name, of another Enum the value."""
    if isinstance(value, dict):
        return {key: plain_values(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(inner) for inner in value]
    if isinstance(value, Enum):
        return value.name if isinstance(value, Status) else value.value
    return value


class View(Model):
    """An envelope in the words of another vocabulary; immutable."""

    vocabulary: ClassVar[str]
    """The key in the envelope's `extensions` under which lies what only the view can say."""
    home: ClassVar[str | None] = None
    """The field that holds `RESERVED`; None: it is a field of the view itself."""
    words: ClassVar[Mapping[str, str]] = {}
    """{field: the envelope's} of what both say in the same way."""

    def document(self) -> dict[str, Any]:
        """The view as its document writes it, in plain values: the fields that were given, and no others."""
        return plain_values(self.model_dump(by_alias=True, exclude_unset=True))  # type: ignore[no-any-return]

    def _fields(self) -> dict[str, Any]:
        """The envelope's fields as far as the view says them; under `RESERVED` only `BARE` counts."""
        return {theirs: getattr(self, ours) for ours, theirs in self.words.items()}

    @classmethod
    def _document(cls, envelope: Any) -> dict[str, Any]:
        """The document of an envelope as far as the vocabulary goes; a valid one for every envelope."""
        said = {ours: getattr(envelope, theirs) for ours, theirs in cls.words.items()}
        return {ours: plain_values(value) for ours, value in said.items()
                if value != cls.model_fields[ours].get_default()}  # fmt: skip

    def _to(self, kind: type[_E]) -> _E:
        residue, document = self._split(self.document())
        envelope = self._carried(kind, document)
        residue.pop(BARE, None)
        return read(kind, patch(plain(envelope), residue)) if residue else envelope

    @classmethod
    def _of(cls, envelope: Model) -> Self:
        hints, document = cls._split(cls._document(envelope))
        document = cls._spelled(envelope, document, hints)
        view, residue = cls._compared(envelope, document, hints)
        if not residue:
            return view
        reread = cls._split(cls._put(document, residue))[1]
        if reread != document:
            # The field that is to hold the residue was there and empty: the residue has to tell that too.
            document, (_, residue) = reread, cls._compared(envelope, reread, hints)
        return cls.parse(cls._put(document, residue))

    @classmethod
    def _compared(cls, envelope: Model, document: dict[str, Any], hints: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The view of a document, and what it does not carry of the envelope."""
        view = cls.parse(cls._put(document, hints))
        carried = view._carried(type(envelope), document)  # noqa: SLF001  an instance of our own class
        return view, {**hints, **difference(plain(carried), plain(envelope))}

    def _carried(self, kind: type[_E], document: dict[str, Any]) -> _E:
        """The envelope of the view's document, without the residue."""
        envelope = read(kind, self._fields())
        if "extensions" not in kind.model_fields:
            return envelope
        spelled = difference(self._split(self._document(envelope))[1], document)
        if not spelled:
            return envelope
        return envelope.model_copy(update={"extensions": freeze({self.vocabulary: spelled})})

    @classmethod
    def _spelled(cls, envelope: Model, document: dict[str, Any], hints: dict[str, Any]) -> dict[str, Any]:
        """The document as it was first written, where the envelope still says the same.

        An envelope may have been changed since it was made of a view: a supervisor cut its timeout. What was
        kept of the view is a spelling of what the envelope says; it is not used once it says something else. Its pieces are
        tried one by one, for each of which the whole envelope is compared, only where that takes less than `_MOST_COMPARED`.
        """
        kept = getattr(envelope, "extensions", {}).get(cls.vocabulary)
        if not isinstance(kept, Mapping):
            return document
        whole = plain(envelope)
        meant = cls._meaning(type(envelope), cls._put(document, hints))
        single = list(islice(pieces(thaw(kept)), most := _MOST_COMPARED // _size(whole) + 1))
        for spelling in [[thaw(kept)], single if len(single) < most else []]:
            result = document
            for piece in spelling:
                try:
                    candidate = cls._split(patch(result, piece))[1]
                    means = cls._meaning(type(envelope), cls._put(candidate, hints))
                except EtherError:
                    continue
                if all(_agree(means, meant, name) or _agree(means, whole, name) for name in means | meant):
                    result = candidate
            if result is not document:
                return result
        return document

    @classmethod
    def _meaning(cls, kind: type[Model], document: dict[str, Any]) -> dict[str, Any]:
        return plain(read(kind, cls.parse(document)._fields()))

    @property
    def _is_bare(self) -> bool:
        holder = getattr(self, self.home) if self.home else None
        residue = holder.get(RESERVED) if holder else None
        return isinstance(residue, Mapping) and residue.get(BARE) is True

    @classmethod
    def _split(cls, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is under `RESERVED`, and the document without it.

        Raises:
            InvalidEnvelope: it is no dict.
        """
        holder = document if cls.home is None else document.get(cls.home)
        if type(holder) is not dict or RESERVED not in holder:
            return {}, document
        rest = {key: value for key, value in holder.items() if key != RESERVED}
        residue = holder[RESERVED]
        if type(residue) is not dict:
            where = RESERVED if cls.home is None else f"{cls.home}.{RESERVED}"
            raise InvalidEnvelope(f"{where} is reserved: it has what {cls.__name__} cannot say, as a dict.")
        if cls.home is None:
            return dict(residue), rest
        if not rest and not cls.model_fields[cls.home].is_required():
            return dict(residue), {key: value for key, value in document.items() if key != cls.home}
        return dict(residue), {**document, cls.home: rest}

    @classmethod
    def _put(cls, document: dict[str, Any], residue: dict[str, Any]) -> dict[str, Any]:
        if not residue:
            return document
        if cls.home is None:
            return {**document, RESERVED: residue}
        holder = document.get(cls.home) or {}
        if type(holder) is not dict:
            raise InvalidEnvelope(f"{cls.home} of {cls.__name__} is no dict: {holder!r:.80}")
        return {**document, cls.home: {**holder, RESERVED: residue}}


class RequestView(View):
    """A delegation in other words."""

    @classmethod
    def from_delegation(cls, delegation: Delegation) -> Self:
        """Say a delegation in these words; `to_delegation` gives it back."""
        return cls._of(delegation)

    def to_delegation(self) -> Delegation:
        """The delegation that this asks for; the same request gives the same, with no timestamp of its own.

        Raises:
            InvalidEnvelope: a residue that is none.
        """
        return self._to(Delegation)


class ResponseView(View):
    """A response in other words."""

    @classmethod
    def from_response(cls, response: Response) -> Self:
        """Say a response in these words; `to_response` gives it back."""
        return cls._of(response)

    def to_response(self) -> Response:
        """The response that this is; the same gives the same.

        Raises:
            InvalidEnvelope: a residue that is none.
        """
        return self._to(Response)
