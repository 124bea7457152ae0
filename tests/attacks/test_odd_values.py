"""A value of another type in each field of each control envelope and each question to the bus: nobody else notices. Sans-IO.

The bodies are well-formed msgpack, and all but one field is as it should be: so the value gets as far as it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgpack
import pytest

from ether_actors.supervisor.capabilities.administration import _ACTIONS
from ether_broker.envelope.payload import pack
from ether_broker.wire.frame import Kind
from tests.actors.peers import request_id
from tests.attacks.frames import Arena

_ID: Final = bytes(16)
_VALUES: Final[list[Any]] = [
    None, True, -1, 0, 2**63, 1.5, 1e308, math.nan, math.inf, -0.0, "x", "", "node:x", "\x1b[31m\n", "é" * 300, b"x", _ID,
    [], [1], [None], ["x"], [b"x"], [[]], [{}], [1, 2, 3], [[_ID, 1]], [[_ID, []]], [["x", 1]], [[_ID, math.nan]],
    {}, {"a": 1}, {1: 2}, {"x": None}, {"x": {}}, {"x": [[_ID, 1]]}, {"mallory": [[_ID, 2**63]]}, {"mallory": {"running": []}},
    {b"x": [[1]]}, {None: None}, {"y": {"z": [1]}}, msgpack.Timestamp(1, 2), msgpack.ExtType(5, b"zz"),
]  # fmt: skip
_CAPABILITY: Final = {"name": "evil.do"}
_ARTIFACT: Final = {"path": "/a", "digest": "sha256:" + "0" * 64, "size": 1}
_SAID: Final[Mapping[Kind, dict[str, Any]]] = {
    Kind.HELLO: {"node": "nmallory", "schema_version": "1.0", "host": "h", "pid": 1, "version": "1"},
    Kind.HEARTBEAT: {
        "agents": {"mallory": {"running": 1}}, "more": False,
        "blocking": {"mallory": {"capability": "evil.do", "request_id": "r", "at": "f.py:1", "seconds": 1.0}},
    },
    Kind.REGISTER: {
        "capabilities": [_CAPABILITY], "agents": ["mallory"], "partial": False, "scales": {}, "subscriptions": [], "role": "",
        "description": "", "version": "1", "max_concurrency": 1, "interface": {}, "exclusions": [], "schedules": [],
        "state": {},
    },
    Kind.UNREGISTER: {"condition": "gone", "reason": "stopped", "begun": b"", "moves": False},
    Kind.OBSERVE: {"from": 1, "topics": ["x"], "stop": False},
    Kind.MONITOR: {"stop": False},
    Kind.RESUME: {"holding": {}, "awaiting": []},
    Kind.FETCH: {"artifact": _ARTIFACT, "offset": 0, "length": 1},
    Kind.CHUNK: {"code": "x", "message": "x"},
    Kind.SCALE: {"before": 1, "instances": 2, "why": "more"},
    Kind.STATE: {"number": 1, "version": 1, "data": b"x", "saved": 1, "refused": "x"},
    Kind.EVENT: {"event": "x"},
    Kind.CANCEL: {"reason": "x"},
    Kind.BYE: {"reason": "x"},
    Kind.RESEND: {"from": 1},
    Kind.TAP_ACK: {"next": 1},
    Kind.WELCOME: {"broker": "b"}, Kind.REGISTERED: {"agents": []}, Kind.TAP: {"first": 1}, Kind.DOWN: {"reason": "x"},
    Kind.ERROR: {"code": "x", "message": "x"},
}  # fmt: skip
"""A body of each kind but those of work."""
_LIST: Final = {"after": 0, "limit": 2}
_ASKED: Final[Mapping[str, dict[str, Any]]] = {
    "ether.agents": {**_LIST, "after": "", "agents": ["alice"], "agent": "alice"},
    "ether.manifests": {**_LIST, "after": "", "agents": ["alice"]},
    "ether.capabilities": {**_LIST, "after": "", "agents": ["alice"], "capability": "evil.do"},
    "ether.nodes": {**_LIST, "after": ""},
    "ether.statistics": {"top": 1},
    "ether.outcomes": {**_LIST, "agent": "mallory"},
    "ether.dead-letters": {**_LIST, "reason": "late"},
    "ether.dead-letter": {"number": 1, "offset": 0, "discard": False},
    "ether.leases": {**_LIST, "resource": "/a"},
    "ether.lease": {"resource": "/a", "attempt": 1, "wait": 0},
    "ether.release": {"token": 1},
    "ether.publish": {"topic": "a.b", "data": pack(1), "timeout": 1.0},
    "ether.states": {**_LIST, "after": ""},
    "ether.state": {"agent": "mallory"},
    "ether.forget-state": {"agent": "mallory"},
    "ether.journal-gc": {"older_than": 1.0, "keep": 1, "journal": 1},
    "ether.suggest": {"request_id": "r", "score": 0.5, "submitted_by": "mallory", "evidence": "x"},
}
"""Params of each question to the bus."""


def bodies(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The body with another value in each field in turn, without each, and with one that it does not have."""
    yield body
    for field in body:
        for value in _VALUES:
            yield {**body, field: value}
        yield {name: value for name, value in body.items() if name != field}
    for value in _VALUES:
        yield {**body, "unknown": value}


def test_all_that_a_node_says_and_asks_is_here():
    assert {*_SAID, Kind.DELEGATION, Kind.RESPONSE} == {*Kind}
    assert _ASKED.keys() == _ACTIONS.keys()


@pytest.mark.parametrize("kind", _SAID, ids=lambda kind: kind.name)
def test_an_odd_value_in_a_control_envelope_changes_nothing_for_others(kind: Kind):
    arena = Arena()
    for body in bodies(_SAID[kind]):
        packed = msgpack.packb(body)
        for source, target in (("mallory", ""), ("", ""), ("", "mallory")):
            arena.mallory.send(
                kind, body=packed, source=source.encode(), target=target.encode(), request_id=request_id(900)
            )
            arena.step()
            arena.check()


@pytest.mark.parametrize("question", _ASKED)
def test_an_odd_value_in_a_question_is_answered_and_changes_nothing_for_others(question: str):
    arena = Arena()
    mallory = arena.mallory
    parent = mallory.delegate("mallory", "evil.do", number=900, timeout=1e9)
    arena.step()
    for number, params in enumerate(bodies(_ASKED[question]), 1_000):
        body = {"params": msgpack.packb(params)}
        mallory.delegate("mallory", question, number=number, timeout=5.0, parent=parent, body=body)
        arena.step()
        assert number in [answer.number for answer in mallory.inbox], params
        arena.check()
