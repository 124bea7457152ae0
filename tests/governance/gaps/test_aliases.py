"""Aliases: a name at most two edits from a known one, as a slow definition of edits has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ether.governance.gaps.aliases import misspelt

NAMES = st.text("ab.", min_size=8, max_size=12)


def edited(name: str) -> set[str]:
    """Every name that is one edit away, of the letters of `NAMES`."""
    cuts = [(name[:at], name[at:]) for at in range(len(name) + 1)]
    return {
        *(head + tail[1:] for head, tail in cuts if tail),
        *(head + letter + tail[1:] for head, tail in cuts if tail for letter in "ab."),
        *(head + letter + tail for head, tail in cuts for letter in "ab."),
        *(head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1),
    }


@given(name=NAMES, data=st.data())
def test_what_an_edit_makes_of_a_name_is_misspelt(name: str, data: st.DataObject):
    other = data.draw(st.sampled_from(sorted(one for one in edited(name) if one != name and len(one) >= 8)))

    assert misspelt(other, [name]) == name


@given(name=st.text("ab.", min_size=4, max_size=9), other=st.text("ab.", min_size=4, max_size=9))
def test_what_is_misspelt_is_two_edits_away_at_most(name: str, other: str):
    if misspelt(other, [name]) is not None:
        assert other != name
        near = edited(name)
        assert other in near | {twice for once in near for twice in edited(once)}
        assert len(other) >= 8 or other in near


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("text.translat", ["text.translate", "text.trim"], "text.translate"),
        ("text.tarnslate", ["text.translate"], "text.translate"),
        ("text.tarnslat", ["text.translate"], "text.translate"),
        ("text.trnslat", ["text.translate"], "text.translate"),
        ("text.trnsla", ["text.translate"], None),
        ("text.translate", ["text.translate"], None),
        ("a.b", ["a.c"], None),
        ("a.cd", ["a.ce"], "a.ce"),
        ("a.cd", ["a.fe"], None),
        ("text.count", [], None),
    ],
)
def test_two_edits_are_misspelt_and_three_are_another_name(name: str, known: list[str], meant: str | None):
    assert misspelt(name, known) == meant
