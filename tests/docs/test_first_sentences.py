"""The first sentence of each module's docstring, and of each class in the glossary: a noun phrase that says what it is."""

from __future__ import annotations

import ast
from typing import Final

import pytest

from tests.docs.glossary import rows, sources

_VERBS: Final = """answers are counts does drive drives examine examines explore explores finds gives has holds keep keeps makes
    reads run runs say says search searches sees shows stores summarise takes tells writes"""
_QUESTIONS: Final = "all everything from how what when where whether which who whose why"
NO_NOUNS: Final = frozenset(f"{_VERBS} {_QUESTIONS}".split())
GERUNDS_THAT_NAME: Final = frozenset({"timing"})


def is_noun_phrase(sentence: str) -> bool:
    """By its first word: no verb form, no question."""
    first = sentence.split(maxsplit=1)[0].strip("`,:;.").lower()
    return first not in NO_NOUNS and (not first.endswith("ing") or first in GERUNDS_THAT_NAME)


def test_a_module_says_first_what_is_in_it() -> None:
    first = {name: (ast.get_docstring(source.tree) or "").partition("\n")[0] for name, source in sources().items()}

    assert {name: line for name, line in first.items() if not line.endswith(".") or not is_noun_phrase(line)} == {}


def test_a_class_of_the_glossary_says_first_what_it_is() -> None:
    assert {row.name: row.meaning for row in rows() if not is_noun_phrase(row.meaning)} == {}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("What it does.", False),
        ("Reading it.", False),
        ("Keeps it.", False),
        ("A reader of it.", True),
        ("Timing.", True),
    ],
)
def test_the_first_word_tells(sentence: str, expected: bool) -> None:
    assert is_noun_phrase(sentence) is expected
