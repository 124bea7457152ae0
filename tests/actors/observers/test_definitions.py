from __future__ import annotations

from ether_actors.observers.metrics.definitions import DEFINITIONS
from tests.support import REPOSITORY


def test_the_table_of_the_page_is_the_list_of_definitions() -> None:
    page = (REPOSITORY / "docs" / "observers.md").read_text(encoding="utf-8")
    table = page[page.index("| Metric |") : page.index("The last four")].strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]

    assert rows == [[f"`{d.name}`", d.source, d.text, "" if d.target is None else str(d.target)] for d in DEFINITIONS]


def test_a_metric_has_one_name() -> None:
    assert len({definition.name for definition in DEFINITIONS}) == len(DEFINITIONS)
    assert len({definition.prometheus or definition.name for definition in DEFINITIONS}) == len(DEFINITIONS)
