from __future__ import annotations

import copy
import pickle
import re

import pytest

from ether_broker import errors
from ether_broker.envelope.response import Response
from ether_broker.envelope.status import Status
from ether_broker.errors import EtherError, OutcomeError
from ether_broker.name_hint import nearest

LINE = re.compile(r"^((?:│   |    )*)(?:├── |└── )?(\w+)(?:  +(.*))?$")


def subclasses(kind: type[EtherError]) -> list[type[EtherError]]:
    """In the order in which they are written, as the module made them."""
    return [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]


def tree(kind: type[EtherError]) -> list[tuple[int, str]]:
    """[(depth, name)] from the top, as the drawing has it."""
    rows = [(0, kind.__name__)]
    for child in subclasses(kind):
        rows += [(depth + 1, name) for depth, name in tree(child)]
    return rows


def drawing() -> list[tuple[int, str]]:
    rows = []
    assert errors.__doc__ is not None
    for line in errors.__doc__.partition("\n\n")[2].rstrip().splitlines():
        match = LINE.match(line)
        assert match is not None, line
        depth = len(match[1]) // 4 + ("── " in line.partition(match[2])[0])
        rows.append((depth, match[2]))
    return rows


def every_error() -> list[type[EtherError]]:
    return [getattr(errors, name) for _, name in tree(EtherError)]


def test_the_drawing_is_the_tree_of_classes():
    assert drawing() == tree(EtherError)


def test_every_error_is_exported():
    assert sorted(errors.__all__) == sorted(kind.__name__ for kind in every_error())


def test_every_error_has_a_code_of_its_own():
    codes = [kind.code for kind in every_error()]

    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


def test_a_code_is_the_name_of_its_class():
    assert errors.LeaseHeld.code == "lease_held"
    assert errors.ProtocolError.code == "protocol"
    assert errors.EtherError.code == "error"


def test_an_error_of_another_module_has_the_code_of_its_base():
    class Broken(errors.AgentCrash):
        pass

    assert Broken.code == "agent_crash"


def test_only_what_the_world_broke_is_worth_another_try():
    assert {kind.__name__ for kind in every_error() if kind.retryable} == {
        *(name for _, name in tree(errors.Unavailable)),
        "WaitTimeout",
    }


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_survives_copying_and_pickling(kind: type[EtherError]):
    error: EtherError
    if issubclass(kind, OutcomeError):
        error = kind(Response(request_id="r", status=Status.TIMEOUT, from_agent="scout"))
    elif kind is errors.PayloadTooLarge:
        error = errors.PayloadTooLarge(2048, 1024)
    elif kind is errors.MalformedFrame:
        error = errors.MalformedFrame("not a frame", b"x" * 100)
    else:
        error = kind("what happened")

    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_a_payload_that_is_too_large_says_both_sizes_and_the_fix():
    error = errors.PayloadTooLarge(2_000_000, 1_048_576)

    assert str(error) == (
        "The envelope has 2,000,000 bytes and the bus takes 1,048,576: write it to a file, and pass bus.artifact(path) or "
        "task.artifact(path) instead."
    )
    assert (error.size, error.limit) == (2_000_000, 1_048_576)


def test_a_malformed_frame_keeps_the_first_of_its_bytes():
    assert errors.MalformedFrame("not a frame", b"x" * 100).data == b"x" * 64
    assert errors.MalformedFrame("not a frame").data == b""


def test_a_waiters_timeout_is_pythons_too():
    assert issubclass(errors.WaitTimeout, TimeoutError)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("params", ["params"], " Did you mean 'params'?"),
        ("prams", ["params", "parent"], " Did you mean 'params'?"),
        ("failed", ["failed_execution", "completed"], " Did you mean 'failed_execution'?"),
        ("rej", ["rejected_overload", "rejected_context"], " Known: rejected_context, rejected_overload."),
        ("zzz", ["one", "two"], " Known: one, two."),
        ("zzz", [f"n{index}" for index in range(9)], " Known: n0, n1, n2, n3, n4, n5, n6, n7, …."),
        ("zzz", [f"n{index}" for index in range(8)], " Known: n0, n1, n2, n3, n4, n5, n6, n7."),
        ("zzz", [], ""),
    ],
)
def test_the_nearest_known_name_is_told(name: str, known: list[str], hint: str):
    assert nearest(name, known) == hint


def test_the_dashes_of_an_option_are_no_likeness() -> None:
    known = ["--advertise", "--name", "--server-key", "--timeout"]

    for name in ("--metrics", "--scale", "--retry"):
        assert "Did you mean" not in nearest(name, known)
    assert nearest("--tmeout", known) == nearest("tmeout", known) == " Did you mean '--timeout'?"
