"""What Prometheus reads: what came, what is queued, how long jobs take. No names of repositories."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bot.service.database import StoreBroken
from bot.service.vitals import Vitals

_BUCKETS_S = (0.1, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)


class Metrics:
    """One process's counters, beside what its database holds for all processes."""

    def __init__(
        self, vitals: Vitals, clock: Callable[[], float], folder: Path | None = None
    ) -> None:
        """Register everything in a registry of its own; `folder` is where jobs are done."""
        self._registry = CollectorRegistry()
        self._deliveries = Counter(
            "fvec_deliveries",
            "Requests to the webhook, by what they were answered.",
            ["result"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "fvec_job_seconds",
            "Time that attempts at jobs took, by the state the job was in afterwards.",
            ["kind", "state"],
            registry=self._registry,
            buckets=_BUCKETS_S,
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(_Kept(vitals, clock, folder))

    def delivered(self, result: str) -> None:
        """Count an answer of the webhook."""
        self._deliveries.labels(result).inc()

    def worked(self, kind: str, state: str, seconds: float) -> None:
        """Count an attempt at a job."""
        self._seconds.labels(kind, state).observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _Kept(Collector):
    """The gauges that are read from the database when they are asked for."""

    def __init__(self, vitals: Vitals, clock: Callable[[], float], folder: Path | None) -> None:
        self._vitals, self._clock, self._folder = vitals, clock, folder

    def collect(self) -> Iterable[Metric]:
        jobs = GaugeMetricFamily(
            "fvec_jobs", "Jobs that are kept, by kind and state.", labels=["kind", "state"]
        )
        depth = GaugeMetricFamily(
            "fvec_queue_depth", "Jobs that are due and not begun, by lane.", labels=["lane"]
        )
        oldest = GaugeMetricFamily(
            "fvec_queue_oldest_seconds",
            "How long the job that is due longest has waited, by lane.",
            labels=["lane"],
        )
        usable = GaugeMetricFamily("fvec_store_usable", "Whether the database answers: 1 or 0.")
        try:
            for kind, state, count in self._vitals.jobs():
                jobs.add_metric([kind, state], count)
            for queue in self._vitals.queues(self._clock()):
                depth.add_metric([queue.lane], queue.depth)
                oldest.add_metric([queue.lane], queue.oldest_s)
            usable.add_metric([], 1)
        except StoreBroken:
            usable.add_metric([], 0)
        return [jobs, depth, oldest, usable, *self._space()]

    def _space(self) -> Iterable[Metric]:
        if self._folder is None:
            return
        free = GaugeMetricFamily(
            "fvec_work_free_bytes", "Space that is free where checkouts and results lie."
        )
        with suppress(OSError):
            free.add_metric([], shutil.disk_usage(self._folder).free)
        yield free
