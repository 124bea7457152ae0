from __future__ import annotations

from ether.audit.brief import brief


def test_a_value_is_brief() -> None:
    assert [brief(value) for value in (None, {}, "text", 0, False, [], {"b": b"12"})] == [
        "", "", "text", "0", "false", "[]", '{"b": "<2 bytes>"}',
    ]  # fmt: skip
