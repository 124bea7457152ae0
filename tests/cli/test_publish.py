"""`ether publish`."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pytest

from ether import Agent, Event, Runtime, on_event, thaw
from tests.cli.command import Command


class Clerk(Agent):
    """Keeps what it hears."""

    heard: queue.SimpleQueue[Event]

    def __init__(self, heard: queue.SimpleQueue[Event]) -> None:
        self.heard = heard

    @on_event("orders.*")
    def note(self, event: Event) -> None:
        self.heard.put(event)


@pytest.mark.parametrize(
    ("words", "stdin", "data"),
    [
        ((), "", None),
        (('{"number": 7}',), "", {"number": 7}),
        (("seven of them",), "", "seven of them"),
        (("@order.json",), "", [1, 2]),
        (("-",), '{"from": "stdin"}', {"from": "stdin"}),
    ],
)
def test_an_event_is_given_to_who_subscribes(
    *, own: Command, own_bus: Runtime, tmp_path: Path, words: tuple[str, ...], stdin: str, data: Any
) -> None:
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
    own_bus.start(Clerk, heard)
    (tmp_path / "order.json").write_text("[1, 2]")
    said = [word.replace("@", f"@{tmp_path}/") for word in words]

    told = own("publish", "orders.new", *said, "-o", "json", stdin=stdin)
    event = heard.get(timeout=10.0)

    assert (told.code, told.json["status"]) == (0, "COMPLETED")
    assert told.json["data"] == {"subscribers": 1, "refused": []}
    assert event.topic == "orders.new"
    assert thaw(event.data) == data


@pytest.mark.parametrize(
    ("topic", "hint"),
    [("order.new", " Did you mean 'orders.*'?"), ("weather", " Known: orders.*.")],
    ids=["misspelt", "another"],
)
def test_a_topic_to_which_nobody_subscribes_is_told(own: Command, own_bus: Runtime, topic: str, hint: str) -> None:
    own_bus.start(Clerk, queue.SimpleQueue())

    told = own("publish", topic, "-o", "json")

    assert (told.code, told.json["data"]) == (0, {"subscribers": 0, "refused": []})
    assert told.err == f"Nobody subscribes to {topic!r}.{hint}\n"


def test_a_delivery_is_listed_in_the_log_and_the_publication_is_the_bus_s_own(folder: Path, tmp_path: Path) -> None:
    url, journal = f"ipc://{folder}/logged.sock", tmp_path / "journal.db"
    with Runtime(bind=url, name="host", journal=journal, drain=0.0) as bus:
        heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
        bus.start(Clerk, heard)
        assert Command(folder, url)("publish", "orders.new", "7").code == 0
        heard.get(timeout=10.0)
    listed = Command(folder, None)("log", "--kind", "delegation", "-o", "jsonl", "--journal", str(journal))

    assert [row["capability"] for row in listed.lines] == ["ether.event.orders.new"]


def test_what_cannot_be_published_is_an_error(own: Command, own_bus: Runtime) -> None:
    own_bus.start(Clerk, queue.SimpleQueue())

    wrong, missing, late = own("publish", "orders new"), own("publish", "orders.new", "@/nowhere"), own(
        "publish", "orders.new", "--timeout", "-1"
    )  # fmt: skip

    assert (wrong.code, missing.code, late.code) == (2, 2, 2)
    assert "orders new" in wrong.err
    assert "DATA cannot read /nowhere: No such file or directory." in missing.err


def test_json_with_a_mistake_is_told_and_published_as_a_text(own: Command, own_bus: Runtime) -> None:
    heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
    own_bus.start(Clerk, heard)

    told = own("publish", "orders.new", "{'number': 7}", "-o", "json")

    assert told.code == 0
    assert told.err == "DATA is no JSON, so it is published as a text: {'number': 7}\n"
    assert heard.get(timeout=10.0).data == "{'number': 7}"
