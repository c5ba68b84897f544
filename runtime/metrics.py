"""A runtime's numbers as Prometheus metrics. Needs the extra `metrics`; nothing imports it before it is asked for.

Everything is read when it is asked for; the two histograms alone are counted as turns and sends end, from then on. No
label holds a chat, a person or a text: handlers, channels and words of ours are all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import attrs
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from .breaker import CircuitState
from .breakers import breaker_statuses
from .channel_status import channel_status
from .health import HealthState
from .histogram import BOUNDS_S, Histogram
from .pool import Job
from .running import running_turns

if TYPE_CHECKING:
    from .build import Tree
    from .pool import WorkerPool
    from .services import Services


@attrs.frozen
class MetricSpec:
    """One metric, as the documentation prints it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    meaning: str


METRICS: Final = (
    MetricSpec("shardline_events_total", "counter", ("event",), "events of this run, as `counters` of the status"),
    MetricSpec("shardline_pruned_rows_total", "counter", ("kind",), "rows that retention took away in this run"),
    MetricSpec("shardline_health", "gauge", (), "0 ok, 1 degraded, 2 failing"),
    MetricSpec("shardline_health_reason", "gauge", ("word", "about"), "1 for each reason of the health"),
    MetricSpec("shardline_backlog_messages", "gauge", (), "open messages: queued, running, in back-off"),
    MetricSpec("shardline_intake_paused", "gauge", (), "1 while the channels read nothing"),
    MetricSpec("shardline_tokens_free", "gauge", (), "messages that the channels may still hand over at once"),
    MetricSpec("shardline_lanes", "gauge", (), "conversations in memory, those with sends counted apart"),
    MetricSpec("shardline_timers", "gauge", (), "timers that are set"),
    MetricSpec("shardline_turns_running", "gauge", ("topic",), "handlers under way"),
    MetricSpec("shardline_turns_overdue", "gauge", (), "handlers that run for too long"),
    MetricSpec("shardline_breaker_open", "gauge", ("topic", "channel"), "1 while a breaker is open; no topic: sends"),
    MetricSpec("shardline_sends_running", "gauge", ("channel",), "sends under way"),
    MetricSpec("shardline_sends_waiting", "gauge", ("channel",), "conversations whose next send has to wait"),
    MetricSpec("shardline_sends_uncertain", "gauge", (), "sends that wait for a person's decision"),
    MetricSpec("shardline_channel_paused_seconds", "gauge", ("channel",), "left of a pause that was asked for"),
    MetricSpec("shardline_channel_stopped", "gauge", ("channel",), "1 where the channel refuses the bot"),
    MetricSpec("shardline_last_received_timestamp_seconds", "gauge", ("channel",), "when it last read a message"),
    MetricSpec("shardline_store_log_bytes", "gauge", (), "length of the store's write-ahead log"),
    MetricSpec("shardline_turn_seconds", "histogram", ("topic",), "how long handlers ran, from the first look on"),
    MetricSpec("shardline_send_seconds", "histogram", ("channel",), "how long calls of the channel took, the same"),
)  # fmt: skip
"""Every metric, in the order they are told."""

_LEVELS: Final = {HealthState.OK: 0.0, HealthState.DEGRADED: 1.0, HealthState.FAILING: 2.0}
J = TypeVar("J", bound=Job)
Labelled = Iterable[tuple[tuple[str, ...], float]]


class Metrics(Collector):
    """The numbers of one runtime, in a registry of its own.

    Args:
        services: The runtime's parts.
        tree: Its actors.
    """

    def __init__(self, services: Services, tree: Tree) -> None:
        self._services = services
        self._tree = tree
        self._turns = {name: _timed(actor.pool) for name, actor in services.topics.items()}
        self._sends = {name: _timed(delivery.pool) for name, delivery in services.deliveries.items()}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """All of them in the Prometheus text format; to be called on the trio thread."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """See `prometheus_client`."""
        values = self._values()
        histograms = {"shardline_turn_seconds": self._turns, "shardline_send_seconds": self._sends}
        for spec in METRICS:
            if spec.kind == "histogram":
                yield _histogram(spec, histograms[spec.name])
                continue
            family = (CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily)(
                spec.name, spec.meaning, labels=spec.labels
            )
            for labels, value in values[spec.name]:
                family.add_metric(labels, value)
            yield family

    def _values(self) -> dict[str, Labelled]:
        services = self._services
        health, intake = self._tree.health.look(), services.intake.status()
        channels = {name: channel_status(delivery) for name, delivery in services.deliveries.items()}
        return {
            "shardline_events_total": _by(services.counters),
            "shardline_pruned_rows_total": _by(services.pruned),
            "shardline_health": _one(_LEVELS[health.state]),
            "shardline_health_reason": [((one.word, one.about), 1.0) for one in health.reasons],
            "shardline_backlog_messages": _one(intake.backlog),
            "shardline_intake_paused": _one(intake.is_paused),
            "shardline_tokens_free": _one(services.tokens.free),
            "shardline_lanes": _one(services.lanes),
            "shardline_timers": _one(services.store.reader.count_timers()),
            "shardline_turns_running": [
                ((name,), float(len(actor.pool.running))) for name, actor in services.topics.items()
            ],
            "shardline_turns_overdue": _one(running_turns(services).overdue),
            "shardline_breaker_open": [
                ((one.topic or "", one.channel or ""), float(one.state is not CircuitState.CLOSED))
                for one in breaker_statuses(services)
            ],
            "shardline_sends_running": [((name,), float(one.running)) for name, one in channels.items()],
            "shardline_sends_waiting": [((name,), float(one.waiting)) for name, one in channels.items()],
            "shardline_sends_uncertain": _one(services.store.reader.count_undecided()),
            "shardline_channel_paused_seconds": [((name,), one.paused_s) for name, one in channels.items()],
            "shardline_channel_stopped": [((name,), float(one.is_stopped)) for name, one in channels.items()],
            "shardline_last_received_timestamp_seconds": [
                ((edge.adapter.name,), edge.last_received_us / 1_000_000)
                for edge in self._tree.edges
                if edge.last_received_us is not None
            ],
            "shardline_store_log_bytes": _one(self._tree.health.log_bytes),
        }


def _timed(pool: WorkerPool[J]) -> Histogram:
    """Have a pool count from now on how long its jobs take."""
    pool.took = pool.took or Histogram()
    return pool.took


def _one(value: float) -> Labelled:
    return [((), float(value))]


def _by(counts: dict[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((name,), float(count)) for name, count in sorted(counts.items()))


def _histogram(spec: MetricSpec, histograms: dict[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(spec.name, spec.meaning, labels=spec.labels)
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    for name, histogram in histograms.items():
        buckets = list(zip(bounds, map(float, accumulate(histogram.counts)), strict=True))
        family.add_metric((name,), buckets, histogram.sum_s)
    return family


__all__ = ["METRICS", "MetricSpec", "Metrics"]
