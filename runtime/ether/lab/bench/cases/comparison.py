"""The cases that compare: the bus beside other systems that do the same work, and beside itself with another option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from ether.lab.bench.case import Case, case
from ether.lab.bench.rounds import Contender, compete, row
from ether.lab.bench.settings import BenchSettings
from ether.lab.harness.deployment import Sample
from ether.lab.harness.workload import NESTED, OPAQUE
from ether.lab.report import Bound, Figure, Report, amount, at_least, at_most, ratio

__all__ = ["APART", "BYTES", "CURVE", "DURABLE", "PIPELINED", "SERIAL", "registered"]

Measure: TypeAlias = Callable[[Sample], float]
Samples: TypeAlias = Mapping[str, Sequence[Sample]]
"""{contender: its samples, one a round}."""
_RATE: Final[Measure] = attrgetter("rate")
_MEDIAN: Final[Measure] = attrgetter("p50")
_P99: Final[Measure] = attrgetter("p99")


def _cpu(sample: Sample) -> float:
    """CPU seconds of all processes for each envelope: what other work on the machine disturbs least."""
    return sum(map(sample.cpu_per_envelope, sample.cpu))


def _report(case: str, figures: Sequence[Figure], samples: Samples) -> Report:
    return Report(tuple(figures), {"rows": [row(case, name, found) for name, found in samples.items()]})


def _beside_others(
    name: str, about: str, bodies: Mapping[str, tuple[str, str]], against: Mapping[str, Bound | None], *,
    is_serial: bool = False, on_one_core: bool = True,
) -> Case:  # fmt: skip
    """The bus against each of the others.

    Args:
        name: of the case.
        about: what it compares, for people.
        bodies: {contender: its system and the kind of its bodies}, the bus as `ether`.
        against: {contender: what the ratio to it has to be}.
        is_serial: whether round trips are made one after the other, and medians are compared. Else many are open, and the
            rate is compared.
        on_one_core: whether all processes share a core while `is_serial`: nobody waits for another core to wake then, so the
            median says how long the path is, and repeats.
    """
    what, measure = ("median", _MEDIAN) if is_serial else ("rate", _RATE)
    contenders = {one: Contender(*system, window=1 if is_serial else None) for one, system in bodies.items()}

    def run(settings: BenchSettings) -> Report:
        samples = compete(
            contenders, settings, settings.core if is_serial and on_one_core else settings.pin, settings.transport
        )
        ours = samples["ether"]
        taken = list(map(measure, ours))
        figures = [
            ratio(name, f"{what}, ether / {other}", taken, list(map(measure, samples[other])), bound)
            for other, bound in against.items()
            if other in samples
        ]
        if is_serial and on_one_core:
            figures.append(ratio(name, "p99 / median, ether", list(map(_P99, ours)), taken, at_most(2.0)))
        elif not is_serial:
            used = [sample.cpu_per_envelope("broker") * 1e6 for sample in ours]
            figures.append(amount(name, "broker CPU an envelope", used, "µs", at_most(8.0)))
        return _report(name, figures, samples)

    return Case(name, about, frozenset(one.system for one in contenders.values()), run)


def _with_option(
    name: str, about: str, options: Mapping[str, Mapping[str, Any]], *, transport: str | None = None,
    rate: Bound | None = None, median: Bound | None = None,
) -> Case:  # fmt: skip
    """The cost of an option: in the rate with many open, in the median one after the other, and in CPU.

    Args:
        name: of the case.
        about: what it compares, for people.
        options: {contender: what its processes are given}; what costs first, what it is compared with second.
        transport: of both buses; None is the one of the settings.
        rate: what the ratio of the rates has to be.
        median: what the ratio of the medians has to be.
    """
    one, other = options
    contenders = {
        f"{kind}, {way}": Contender("ether", window=window, options=options[kind])
        for kind in (other, one)
        for way, window in (("pipelined", None), ("serial", 1))
    }
    measured = (
        ("rate", "pipelined", _RATE, rate), ("CPU an envelope", "pipelined", _cpu, None), ("median", "serial", _MEDIAN, median),
    )  # fmt: skip

    def run(settings: BenchSettings) -> Report:
        samples = compete(contenders, settings, settings.pin, transport or settings.transport)
        figures = []
        for what, way, measure, bound in measured:
            ours, theirs = (list(map(measure, samples[f"{kind}, {way}"])) for kind in options)
            figures.append(ratio(name, f"{what}, {one} / {other}", ours, theirs, bound))
        return _report(name, figures, samples)

    return Case(name, about, frozenset({"ether"}), run)


@case("registered", "work spread over many registered agents beside one: rate, by capability and by name", "ether")
def registered(settings: BenchSettings) -> Report:
    """Rate of many agents against that of one, chosen by the registry and named in turn."""
    ways = {"by capability": False, "by name": True}
    contenders = {
        f"{size}, {way}": Contender("ether", by_name=by_name, options={"agents": agents})
        for size, agents in (("one", 1), ("many", settings.registered))
        for way, by_name in ways.items()
    }
    samples = compete(contenders, settings, settings.pin, settings.transport)
    figures = []
    for way in ways:
        many, one = ([sample.rate for sample in samples[f"{size}, {way}"]] for size in ("many", "one"))
        name = f"rate, {settings.registered:,} agents / one, {way}"
        figures.append(ratio("registered", name, many, one, at_least(0.9)))
    return _report("registered", figures, samples)


PIPELINED: Final = _beside_others(
    "pipelined",
    "nested bodies, many open at a time: rate beside NATS, CPU of the broker",
    {"nats": ("nats", NESTED), "ether": ("ether", NESTED)},
    {"nats": at_least(2.5)},
)
"""NATS with the same envelopes, packed and validated by the same code."""
BYTES: Final = _beside_others(
    "bytes",
    "bytes bodies, many open at a time: rate beside NATS, raw sockets and a C proxy",
    {
        "raw": ("raw", OPAQUE), "proxy": ("proxy", OPAQUE), "nats plain": ("nats", "plain"), "nats": ("nats", OPAQUE),
        "ether": ("ether", OPAQUE),
    },
    {"nats": at_least(2.5), "raw": at_least(0.2), "proxy": None, "nats plain": None},
)  # fmt: skip
"""Beside sockets that know neither envelope nor broker, too."""
SERIAL: Final = _beside_others(
    "serial",
    "nested bodies, one after the other on one core: median beside NATS and raw sockets, p99",
    {"raw": ("raw", OPAQUE), "proxy": ("proxy", OPAQUE), "nats": ("nats", NESTED), "ether": ("ether", NESTED)},
    {"nats": at_most(0.7), "raw": at_most(8.0), "proxy": None},
    is_serial=True,
)
APART: Final = _beside_others(
    "apart",
    "nested bodies, one after the other on all cores: median beside NATS",
    {"nats": ("nats", NESTED), "ether": ("ether", NESTED)},
    {"nats": at_most(0.8)},
    is_serial=True,
    on_one_core=False,
)
DURABLE: Final = _with_option(
    "durable",
    "durability journal beside memory: rate with many open, median one after the other",
    {"journal": {"durability": "journal"}, "memory": {"durability": "memory"}},
    rate=at_least(0.95),
    median=at_most(1.8),
)
"""Everything is committed to the journal before it is told; under load commits are shared, alone each is waited for."""
CURVE: Final = _with_option(
    "curve",
    "TCP with keys (CURVE) beside TCP without: rate with many open, median one after the other",
    {"CURVE": {"secure": True}, "open": {"secure": False}},
    transport="tcp",
    rate=at_least(0.95),
)
"""Every byte is encrypted on each of its ways, and whose it is asked of each connection."""
