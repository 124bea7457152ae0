"""Observers and the metrics endpoint of a cluster's specification, in real processes."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ether import Agent, Cluster, InvalidSpec, NodeSpec, Observation, Observer, ProcessFailed, Runtime, capability
from ether.cluster import AgentSpec, ClusterSpec, MetricsSpec, ObserverSpec, metrics_endpoint
from ether.cluster.file.file_loader import load
from ether.cluster.metrics_endpoint import MetricsEndpoint
from ether.observers import CONTENT_TYPE, Metrics
from ether_broker.errors import AddressInUse
from ether_broker.security.access_list import Access, DelegateRule
from tests.support import wait_until

PATIENCE = 20.0
WORKER = "tests.runtime.agents:Worker"
WRITER = "tests.runtime.cluster.test_cluster_observers:FileWriter"


class FileWriter(Observer):
    """Writes each capability that it sees to a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def on_delegation(self, observation: Observation) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(observation.capability) + "\n")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def scrape(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        return str(answer.read().decode())


@pytest.mark.parametrize(
    "access", [None, Access(delegate=[DelegateRule("*", "*")], read=["*"])], ids=["open", "access list"]
)
def test_a_node_observes_and_serves_the_metrics_of_the_whole_bus(tmp_path: Path, access: Access | None) -> None:
    seen, port = tmp_path / "seen.jsonl", free_port()
    nodes = [
        NodeSpec("work", agents=(WORKER,)),  # type: ignore[arg-type]
        NodeSpec("watch", observers=(ObserverSpec(WRITER, kwargs={"path": str(seen)}),), metrics=MetricsSpec(port)),
    ]
    with Cluster(nodes, drain=1.0, access=access) as cluster, Runtime.connect(cluster.url, name="me", drain=0.0) as bus:
        declared = min(bus.capabilities())
        for _ in range(3):
            bus.delegate(declared, {"wrong": "params"}, to="worker").result(PATIENCE)

        def ended() -> bool:
            found = re.findall(r'ether_delegations_total\{agent="worker",.*\} (\d+)', scrape(port))
            return sum(map(int, found)) == 3

        assert wait_until(ended, PATIENCE)
        assert wait_until(lambda: seen.exists() and len(seen.read_text().splitlines()) >= 3, PATIENCE)
        assert "ether_turnaround_seconds" in scrape(port, "/metrics?name=x")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scrape(port, "/")
    found = {json.loads(line) for line in seen.read_text().splitlines()}
    assert {capability for capability in found if not capability.startswith("ether.")} == {declared}


def test_a_port_that_is_taken_is_told_by_the_node_that_cannot_have_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        spec = NodeSpec("watch", metrics=MetricsSpec(port))

        with pytest.raises(
            (AddressInUse, ProcessFailed), match=rf"cannot be served at 127.0.0.1:{port}.*choose another port"
        ):
            Cluster([spec], drain=0.0).open()


@pytest.mark.parametrize(
    ("start", "said"),
    [(WORKER, "is not an Observer: derive it from ether.Observer"), ("no.such:Thing", "no.such")],
)
def test_what_is_no_observer_is_told(start: str, said: str) -> None:
    with pytest.raises((InvalidSpec, ProcessFailed), match=said):
        Cluster([NodeSpec("watch", observers=(ObserverSpec(start),))], drain=0.0).open()


def test_a_client_that_says_nothing_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics_endpoint, "_SILENCE", 0.2)
    endpoint = MetricsEndpoint(MetricsSpec(0), Metrics())
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    before = threading.active_count()
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    for client in clients:
        client.sendall(b"GET /met")
    assert wait_until(lambda: threading.active_count() > before, PATIENCE)

    assert "# TYPE" in scrape(port)
    assert wait_until(lambda: threading.active_count() <= before, PATIENCE)
    for client in clients:
        client.close()
    endpoint.close()
    assert capfd.readouterr().err == ""


def test_clients_that_stay_take_no_place_of_who_comes_later_and_no_more_than_some_threads() -> None:
    endpoint = MetricsEndpoint(MetricsSpec(0), Metrics())
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    before = threading.active_count()
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    assert "# TYPE" in scrape(port)
    assert wait_until(lambda: threading.active_count() <= before + 2 * metrics_endpoint._CLIENTS, PATIENCE)
    clients[0].settimeout(PATIENCE)
    assert clients[0].recv(1) == b"", "the oldest was hung up on"
    for client in clients:
        client.close()
    endpoint.close()
    assert wait_until(lambda: threading.active_count() < before + 1, PATIENCE)


def test_the_text_is_made_once_for_all_that_ask_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, made, asked, go_on = [10.0], list[float](), list[None](), threading.Event()
    get = metrics_endpoint._KeptText.get

    def ask(self: Any) -> bytes:
        asked.append(None)
        return get(self)

    def make(_self: Metrics) -> str:
        made.append(now[0])
        assert go_on.wait(PATIENCE)
        return f"# TYPE {now[0]}\n"

    monkeypatch.setattr(Metrics, "to_prometheus", make)
    monkeypatch.setattr(metrics_endpoint._KeptText, "get", ask)
    endpoint = MetricsEndpoint(MetricsSpec(0), Metrics(), lambda: now[0])
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    found: list[str] = []
    clients = [threading.Thread(target=lambda: found.append(scrape(port))) for _ in range(4)]
    for client in clients:
        client.start()
    assert wait_until(lambda: len(asked) == len(clients), PATIENCE)
    go_on.set()
    for client in clients:
        client.join(PATIENCE)
    now[0] = 10.9
    assert [*found, scrape(port)] == ["# TYPE 10.0\n"] * 5
    now[0] = 11.0
    assert scrape(port) == "# TYPE 11.0\n"
    endpoint.close()

    assert made == [10.0, 11.0]


def test_clients_are_let_in_one_by_one_with_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    go_on = threading.Event()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        assert go_on.wait(PATIENCE)

    monkeypatch.setattr(metrics_endpoint, "sleep", pause)
    endpoint = MetricsEndpoint(MetricsSpec(0), Metrics())
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    assert "# TYPE" in scrape(port), "who is let in need not wait"
    with socket.create_connection(("127.0.0.1", port)) as second:
        second.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        second.settimeout(0.1)
        with pytest.raises(TimeoutError):
            second.recv(1)
        go_on.set()
        second.settimeout(PATIENCE)
        assert second.recv(4) == b"HTTP"
    assert wait_until(lambda: pauses == [metrics_endpoint._PACE] * 2, PATIENCE)
    endpoint.close()


def test_a_client_has_so_long_for_its_whole_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "_SILENCE", 0.5)
    endpoint = MetricsEndpoint(MetricsSpec(0), Metrics())
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])

    def says_more() -> bool:
        try:
            client.sendall(b"G")
        except OSError:
            return False
        return True

    with socket.create_connection(("127.0.0.1", port)) as client:
        assert wait_until(lambda: not says_more(), PATIENCE)
    endpoint.close()


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (
            NodeSpec("n", observers=(ObserverSpec("ether.observers:Log", kwargs={"leve": 1}),)),
            r"ether.observers:Log does",
        ),
        (NodeSpec("n", agents=(AgentSpec(WORKER, kwargs={"leve": 1}),)), rf"{WORKER} does"),
    ],
)
def test_arguments_that_a_class_does_not_take_are_told_with_the_class(node: NodeSpec, said: str) -> None:
    with pytest.raises(
        InvalidSpec, match=f"{said} not take these arguments: got an unexpected keyword argument 'leve'"
    ):
        Cluster([node], drain=0.0).open()


def test_an_endpoint_that_may_wait_listens_once_its_address_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(AddressInUse):
            MetricsEndpoint(MetricsSpec(port), Metrics())
        gives_up = MetricsEndpoint(MetricsSpec(port), Metrics(), may_wait=True)
        gives_up.close()
        endpoint = MetricsEndpoint(MetricsSpec(port), Metrics(), may_wait=True)
        assert not endpoint.is_listening
        with pytest.raises(AddressInUse, match=f"cannot be served at 127.0.0.1:{port}.*choose another port"):
            endpoint.check_listening(0.0)
    endpoint.check_listening(PATIENCE)
    assert endpoint.is_listening
    assert "# TYPE" in scrape(port)
    endpoint.close()


def test_an_endpoint_listens_at_an_address_of_ipv6_and_waits_only_for_what_may_become_free() -> None:
    endpoint = MetricsEndpoint(MetricsSpec(0, "::1"), Metrics())
    assert endpoint.url.startswith("http://[::1]:")
    with urllib.request.urlopen(endpoint.url, timeout=PATIENCE) as answer:
        assert b"# TYPE" in answer.read()
    endpoint.close()
    with pytest.raises(AddressInUse, match=r"cannot be served at 192\.0\.2\.1:9464"):
        MetricsEndpoint(MetricsSpec(9464, "192.0.2.1"), Metrics(), may_wait=True)


def test_the_endpoint_ends_when_it_is_closed() -> None:
    endpoint = MetricsEndpoint(MetricsSpec(0), Metrics())
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    assert "# TYPE" in scrape(port)

    endpoint.close()

    with pytest.raises(urllib.error.URLError):
        scrape(port)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MetricsSpec(70_000), "metrics.port is 70000: give a port, 0 to 65535"),
        (lambda: MetricsSpec(True), "metrics.port is True"),
        (lambda: MetricsSpec(1, host=""), "metrics.host is '': give an address"),
        (lambda: MetricsSpec(1, host="[::1]"), r"metrics.host is '\[::1\]': give it without brackets, '::1'"),
        (lambda: ObserverSpec("audit.Trail"), "An observer's start is 'audit.Trail': write module:Class"),
        (lambda: NodeSpec("n", observers="audit:Trail"), r"observers is 'audit:Trail': give a list"),
        (lambda: NodeSpec("n", metrics=9464), "metrics is 9464: give a MetricsSpec"),
        (
            lambda: ClusterSpec((NodeSpec("a", metrics=MetricsSpec(9464)), NodeSpec("b", metrics=MetricsSpec(9464)))),
            "a and b both serve metrics at 127.0.0.1:9464: give one of them another port",
        ),
    ],
)
def test_what_cannot_be_says_what_would(make: Any, said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        make()


def test_a_cluster_file_has_both(tmp_path: Path) -> None:
    file = tmp_path / "bus.yaml"
    file.write_text(
        "cluster: {durability: memory}\n"
        "nodes:\n"
        "  - name: watch\n"
        f"    observers: [{{start: '{WRITER}', kwargs: {{path: seen}}}}]\n"
        "    metrics: {port: 9464}\n"
    )

    [node] = load(file, environ={}).nodes

    assert node.observers == (ObserverSpec(WRITER, kwargs={"path": "seen"}),)
    assert node.metrics == MetricsSpec(9464)
    file.write_text("nodes:\n  - name: watch\n    metrics: {prt: 9464}\n")
    with pytest.raises(InvalidSpec, match=r"has no key 'prt'. Did you mean 'port'\?"):
        load(file, environ={})


class Filled(type(Agent)):  # type: ignore[misc]  # the metaclass of all agents
    """Gives what it makes an argument of its own."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, store="a store", **kwargs)


class Stocked(Agent, metaclass=Filled):
    def __init__(self, store: str) -> None:
        self.store = store

    @capability("stocked.ask")
    def ask(self) -> str:
        return self.store


def test_a_class_that_is_made_in_a_way_of_its_own_is_made_so() -> None:
    start = "tests.runtime.cluster.test_cluster_observers:Stocked"
    with (
        Cluster([NodeSpec("n", agents=(AgentSpec(start),))], drain=0.0) as cluster,
        Runtime.connect(cluster.url, name="asking") as bus,
    ):
        assert bus.delegate("stocked.ask", timeout=PATIENCE).result().data == "a store"


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (MetricsSpec(9464), MetricsSpec(9464), True),
        (MetricsSpec(9464), MetricsSpec(9464, "0.0.0.0"), True),
        (MetricsSpec(9464, "::"), MetricsSpec(9464), True),
        (MetricsSpec(9464, "127.0.0.2"), MetricsSpec(9464), False),
        (MetricsSpec(9464), MetricsSpec(9465), False),
        (MetricsSpec(0), MetricsSpec(0), False),
        (MetricsSpec(0), None, False),
    ],
)
def test_two_endpoints_cannot_listen_at_one_address(
    one: MetricsSpec, other: MetricsSpec | None, *, overlap: bool
) -> None:
    assert one.overlaps(other) is overlap
