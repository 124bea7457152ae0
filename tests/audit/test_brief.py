from __future__ import annotations

from ether.audit.brief import brief


def test_a_value_is_brief() -> None:
    assert [brief(value) for value in (None, {}, "text", 0, False, [], {"b": b"12"})] == [
        "", "", "text", "0", "false", "[]", '{"b": "<2 bytes>"}',
    ]  # fmt: skip


def test_keys_that_json_has_not_are_shown_too() -> None:
    assert brief({b"key": 1, 2: ["x"]}) == '{"a2V5": 1, "2": ["x"]}'
