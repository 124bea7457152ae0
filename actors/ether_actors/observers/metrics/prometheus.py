"""Statistics in Prometheus's text exposition format 0.0.4.

    # HELP name text          backslash and line feed of the text are escaped
    # TYPE name counter
    name{label="value"} 1.0   backslash, line feed and double quote of a value are escaped

What is not known has no sample. Counters and the histogram are by agent and capability, at most 401 pairs with the
default bounds of `Metrics`, and everything else in the labels is from a fixed list; so a scrape has at most some 16,000
samples. The metrics of the specs are gauges by window, over all agents: Prometheus sums and divides the counters by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ether_actors.observers.metrics.definitions import DEFINITIONS
from ether_actors.observers.metrics.snapshot import MetricsStatistics, PairTotals

__all__ = ["BOUNDS", "CONTENT_TYPE", "exposition"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""What an HTTP answer with this text has to say."""
BOUNDS: Final = range(-12, 10)
"""Bounds of the turnaround histogram: 10^(n/3) seconds, from 0.1 ms to 1,000 s."""

_Labels = tuple[tuple[str, object], ...]
_Sample = tuple[str, _Labels, float]


def exposition(statistics: MetricsStatistics) -> str:
    """Write statistics down for Prometheus."""
    return "".join(f"{line}\n" for line in _lines(statistics))


def _lines(statistics: MetricsStatistics) -> Iterator[str]:
    pairs = statistics.pairs
    yield from _family("ether_delegations_total", "counter", "Delegations that ended.", (
        ("", (*_labels(pair), ("status", status)), count) for pair in pairs for status, count in pair.by_status.items()
    ))  # fmt: skip
    yield from _family(
        "ether_turnaround_seconds", "histogram", "Seconds from delegation to outcome of COMPLETED, by the broker's clock.",
        (sample for pair in pairs if pair.turnaround_count for sample in _histogram(pair)),
    )  # fmt: skip
    yield from _counter(
        "retries",
        "Runs of a delegation after its first. Attempts of a retry policy are delegations.",
        ((_labels(pair), pair.retries) for pair in pairs),
    )
    yield from _counter(
        "unresolved_items", "Items that answers left unresolved.", ((_labels(pair), pair.unresolved_items) for pair in pairs)
    )  # fmt: skip
    yield from _family(
        "ether_delegations_open", "gauge", "Delegations without an outcome.", [("", (), statistics.open)]
    )
    yield from _counter("messages", "Messages seen.", _by("kind", statistics.messages))
    yield from _counter("events", "Events seen.", _by("event", statistics.events))
    yield from _counter("dead_letters", "Dead letters kept.", _by("reason", statistics.dead_letters))
    yield from _counter("messages_missed", "Messages gone before they were seen.", [((), statistics.missed)])
    yield from _counter(
        "outcomes_missed", "Delegations whose outcome was not seen.", [((), statistics.outcomes_missed)]
    )  # fmt: skip
    yield from _counter(
        "delegations_missed", "Outcomes whose delegation was not seen.", [((), statistics.delegations_missed)]
    )  # fmt: skip
    yield from _counter("unreadable", "Outcomes whose body is none.", [((), statistics.unreadable)])
    yield from _family("ether_window_messages_missed", "gauge", "Messages of the window that were not seen.", (
        ("", (("window", name),), window.missed) for name, window in statistics.windows.items()
    ))  # fmt: skip
    for definition in DEFINITIONS:
        name = f"ether_{definition.prometheus or definition.name}"
        yield from _family(
            name, "gauge", f"{definition.source}: {definition.text}.", _gauges(statistics, definition.name)
        )


def _gauges(statistics: MetricsStatistics, metric: str) -> Iterator[_Sample]:
    if metric == "gap_suggestion_frequency":
        if statistics.gap_suggestion_frequency is not None:
            yield "", (), statistics.gap_suggestion_frequency
        return
    for window in statistics.windows:
        value = statistics.value(metric, window)
        if value is not None:
            yield "", (("window", window),), value


def _histogram(pair: PairTotals) -> Iterator[_Sample]:
    labels = _labels(pair)
    for third, count in zip(BOUNDS, pair.turnaround_buckets, strict=True):
        yield "_bucket", (*labels, ("le", f"{10 ** (third / 3):.6g}")), count
    yield "_bucket", (*labels, ("le", "+Inf")), pair.turnaround_count
    yield "_sum", labels, pair.turnaround_sum
    yield "_count", labels, pair.turnaround_count


def _labels(pair: PairTotals) -> _Labels:
    return ("agent", pair.agent), ("capability", pair.capability)


def _by(label: str, counts: dict[str, int]) -> Iterator[tuple[_Labels, float]]:
    return ((((label, name),), count) for name, count in counts.items())


def _counter(name: str, text: str, samples: Iterable[tuple[_Labels, float]]) -> Iterator[str]:
    return _family(f"ether_{name}_total", "counter", text, (("", labels, value) for labels, value in samples))


def _family(name: str, kind: str, text: str, samples: Iterable[_Sample]) -> Iterator[str]:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for suffix, labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(str(content))}"' for label, content in labels)
        yield f"{name}{suffix}{{{inside}}} {value!r}" if inside else f"{name}{suffix} {value!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
