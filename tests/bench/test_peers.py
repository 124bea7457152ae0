"""The table of other libraries: what is there runs, what is missing is named, and the picture of it is whole."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from ether.lab.bench import main
from ether.lab.bench.bars import bars
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.procfs import resident_bytes, tree_bytes
from ether_broker.errors import MissingExtra
from tests.bench.test_run import TINY

LIBRARIES: Final = {"ray": "ray", "dask": "distributed", "celery": "celery", "autogen": "autogen_core"}
SVG: Final = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow
def test_what_is_there_is_measured_and_ordered_by_its_rate() -> None:
    report = main.run(["peers"], BenchSettings(**TINY, without=("proxy", *LIBRARIES)))

    rows = report.tables["rows"]
    assert {row["contender"] for row in rows} == {"raw sockets", "NATS", "Ether, cluster", "Ether, embedded"}
    assert sorted(rows, key=lambda row: -row["round trips/s"]) == list(rows)
    assert all(row["p99 µs"] >= row["p50 µs"] > 0 < row["MiB"] for row in rows)
    assert [figure.name for figure in report.figures] == ["rate, Ether, cluster / NATS"]


@pytest.mark.slow
@pytest.mark.parametrize("system", LIBRARIES)
def test_a_library_is_measured_or_named_as_missing(system: str) -> None:
    left_out = {one for one in main.CASES["peers"].systems if one != system}
    settings = BenchSettings(**TINY, without=tuple(left_out))
    if importlib.util.find_spec(LIBRARIES[system]) is not None:
        assert main.run(["peers"], settings).tables["rows"]
        return
    with pytest.raises(MissingExtra, match=rf"(?s){LIBRARIES[system]}.*agent-ether\[peers\].*--without"):
        main.run(["peers"], settings)


@pytest.mark.slow
def test_events_are_measured_beside_redis_or_that_is_named_as_missing() -> None:
    alone = main.run(["events"], BenchSettings(**TINY, without=("redis",)))
    assert [row["contender"] for row in alone.tables["rows"]] == ["Ether"]
    assert alone.tables["rows"][0]["deliveries/s"] > 0
    if importlib.util.find_spec("redis") is None or shutil.which("redis-server") is None:
        with pytest.raises(MissingExtra, match=r"(?s)redis.*agent-ether\[peers\].*--without"):
            main.run(["events"], BenchSettings(**TINY))
    else:
        (figure,) = main.run(["events"], BenchSettings(**TINY)).figures
        assert figure.value > 0


def test_it_runs_only_when_it_is_named() -> None:
    assert {name for name, case in main.CASES.items() if case.is_extra} == {"artifact", "events", "map", "peers"}


def test_the_memory_of_a_tree_is_no_less_than_that_of_its_root() -> None:
    assert tree_bytes([os.getpid()]) >= resident_bytes() * 0.9
    assert tree_bytes([]) == 0


def test_bars_are_as_long_as_the_logarithm_of_what_they_show() -> None:
    rows = [{"of": "Ether & <co>", "rate": 10_000.0}, {"of": "other", "rate": 100.0}, {"of": "none", "rate": None}]
    picture = ET.fromstring(bars(rows, "of", "rate"))

    long, short = (float(bar.attrib["width"]) for bar in picture.iter(f"{SVG}rect"))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert long > short >= 1.0
    assert texts == ["rate, logarithmic", "Ether & <co>", "10,000", "other", "100"]


@pytest.mark.parametrize("rows", [[], [{"of": "one", "rate": 5.0}]])
def test_few_bars_are_a_picture_too(rows: list[dict[str, object]]) -> None:
    assert len(list(ET.fromstring(bars(rows, "of", "rate")).iter(f"{SVG}rect"))) == len(rows)
