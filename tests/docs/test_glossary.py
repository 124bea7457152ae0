"""The glossary of docs/design.md: what folders show to others, and nothing else; a name means one thing."""

from __future__ import annotations

from collections import Counter

from tests.docs.glossary import BEGIN, DESIGN, glossary, modules, rows


def test_the_glossary_has_what_folders_show_to_others_and_nothing_else() -> None:
    written = BEGIN + DESIGN.read_text().partition(BEGIN)[2]
    assert written == glossary(), "write it again: python -m tests.docs.glossary"


def test_each_class_and_module_says_what_it_is() -> None:
    assert [row.name for row in rows() if not row.meaning] == []
    assert [module for module, meaning in modules().items() if not meaning] == []


def test_a_name_that_folders_show_to_others_means_one_thing() -> None:
    count = Counter(row.name for row in rows())
    assert sorted(name for name, times in count.items() if times > 1) == []
