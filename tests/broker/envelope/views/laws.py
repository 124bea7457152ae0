"""What holds of every view: its document survives the envelope, and the envelope survives the view."""

from __future__ import annotations

import json
from typing import Any

from ether_broker.envelope.delegation import Delegation
from ether_broker.envelope.manifest.manifest import Manifest
from ether_broker.envelope.response import Response
from ether_broker.envelope.views.lossless import same
from ether_broker.envelope.views.view import View, plain

__all__ = ["document_survives", "envelope_of", "envelope_survives", "envelope_survives_as_json", "view_of"]

Envelope = Delegation | Response | Manifest


def view_of(kind: Any, envelope: Envelope) -> Any:
    """The view of an envelope, by `from_delegation`, `from_response` or `from_manifest`."""
    return getattr(kind, f"from_{type(envelope).__name__.lower()}")(envelope)


def envelope_of(view: View) -> Any:
    """The envelope of a view."""
    (method,) = {"to_delegation", "to_response", "to_manifest"} & set(dir(view))
    return getattr(view, method)()


def document_survives(kind: type[View], document: dict[str, Any]) -> None:
    """Whether a document → view → envelope → view → document gives the same JSON, 1 and 1.0 told apart."""
    text = json.dumps(document, sort_keys=True)
    view = kind.parse(json.loads(text))
    again = view_of(kind, envelope_of(view))
    assert json.dumps(again.document(), sort_keys=True) == text
    assert again == view
    assert json.dumps(json.loads(again.model_dump_json(by_alias=True, exclude_unset=True)), sort_keys=True) == text


def envelope_survives(kind: type[View], envelope: Envelope) -> None:
    """Whether an envelope → view → envelope gives an equal one."""
    again = envelope_of(view_of(kind, envelope))
    assert again == envelope
    assert same(plain(again), plain(envelope))


def envelope_survives_as_json(kind: type[View], envelope: Envelope) -> None:
    """Whether an envelope → view → JSON → view → envelope gives an equal one."""
    text = json.dumps(view_of(kind, envelope).document())
    again = envelope_of(kind.parse(json.loads(text)))
    assert again == envelope
    assert same(plain(again), plain(envelope))
