"""Figures for a monitoring system, in Prometheus' text form.

What this server does is counted here as it happens; what the installation is, is read when somebody asks, so
that every server says the same of it. Labels are of closed lists, but for clusters and queues: of those the
first MOST_NAMES by name have series of their own, the rest is summed up as `other`. No label tells of a
project, a user or a workload.
"""

from __future__ import annotations

import platform
import time
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from steelyard import __version__
from steelyard.identity.authorise import authorise
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Principal, Verb
from steelyard.model.pools import ClosingCause
from steelyard.model.resources import DeviceClass
from steelyard.model.units import SECOND
from steelyard.services.evictions import made_by_queue
from steelyard.store import closings, figures
from steelyard.store.database import View
from steelyard.store.installation import LeaseRow, read_lease
from steelyard.store.inventory import observations
from steelyard.store.leaves import log_size
from steelyard.store.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOUN = "metrics"
MOST_NAMES = 100
OTHER = "other"
LEASE = "control"
_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Loop:
    """The control loop of this server, as it is now."""

    leading: bool
    ticked_ago: float | None  # seconds; None before the first tick
    failing: bool


def authorise_metrics(principal: Principal) -> None:
    """Raises ForbiddenError unless the principal may observe the whole installation."""
    authorise(principal, Verb.OBSERVE, NOUN)


class Meters:
    """Counts what one server does. Thread-safe. `loop` tells of its control loop when asked."""

    def __init__(self, store: Store, loop: Callable[[], Loop]) -> None:
        self.registry = CollectorRegistry()
        ours = self.registry
        self._requests = Histogram(
            "steelyard_request_seconds", "Time to the beginning of an answer.",
            ["method", "route", "status"], buckets=_FAST, registry=ours,
        )  # fmt: skip
        self._cycles = Histogram(
            "steelyard_cycle_seconds", "A scheduling cycle with its commit.", buckets=_FAST, registry=ours
        )
        self._placements = Counter("steelyard_placements", "Attempts placed by this server.", registry=ours)
        self._commits = Histogram(
            "steelyard_commit_seconds", "A group of writes with its fsync.", buckets=_FAST, registry=ours
        )
        self._units = Counter("steelyard_units", "Units of work that were written.", registry=ours)
        ProcessCollector(registry=self.registry)
        self.registry.register(_Installation(store, loop))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """An answer began. `route` is its pattern, never the address itself."""
        self._requests.labels(method, route, str(status)).observe(seconds)

    def cycle(self, placements: int, seconds: float) -> None:
        """The scheduler decided."""
        self._cycles.observe(seconds)
        self._placements.inc(placements)

    def commit(self, units: int, seconds: float) -> None:
        """The writer flushed a group."""
        self._commits.observe(seconds)
        self._units.inc(units)

    def exposition(self) -> bytes:
        """Everything, as text."""
        return generate_latest(self.registry)


class _Installation(Collector):
    """What is read when somebody asks."""

    def __init__(self, store: Store, loop: Callable[[], Loop]) -> None:
        self._store = store
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: describing would read the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One view of the database, then this server's own state."""
        began, store = time.monotonic(), self._store
        with store.read() as view:
            yield from self._of_database(view, store.now())
        yield from self._of_server()
        yield _gauge("scrape_seconds", "Time to collect all of this.", time.monotonic() - began)

    def _of_database(self, view: View, now: int) -> Iterator[Metric]:
        phases = figures.live_phases(view)
        found = Gauge("steelyard_workloads", "Workloads by phase, but for finished ones.", labels=["phase"])
        for phase in Phase:
            if phase is not Phase.FINISHED:
                found.add_metric([phase.value], phases.get(phase.value, 0))
        yield found
        yield from _queues(figures.waiting(view), now)
        yield from _evictions(made_by_queue(view, now))
        kept = figures.quarantined(view)
        found = Gauge(
            "steelyard_quarantined", "Quantity kept back until its release is proven.", labels=["class"]
        )
        for device_class in DeviceClass:
            found.add_metric([device_class.value], kept.get(device_class.value, 0))
        yield found
        yield from _devices(view)
        yield from _pools(view)
        yield from _clusters(view, now)
        yield _gauge("log_leaves", "Entries of the evidence log.", log_size(view))
        yield from _lease(read_lease(view, LEASE), now)

    def _of_server(self) -> Iterator[Metric]:
        store, loop = self._store, self._loop()
        yield _gauge("writer_queue", "Units that wait to be written.", store.writer.waiting)
        yield _gauge("writer_failing", "1 while the last write failed.", store.writer.broken is not None)
        yield _gauge("leading", "1 where this server holds the control lease.", loop.leading)
        yield _gauge("control_failing", "1 while the control loop's last tick failed.", loop.failing)
        if loop.ticked_ago is not None:
            yield _gauge("control_tick_age_seconds", "Since the control loop's last tick.", loop.ticked_ago)
        labels = {
            "version": __version__, "python": platform.python_version(),
            "database": store.engine.dialect.name,
        }  # fmt: skip
        info = Gauge("steelyard_build_info", "What runs here.", labels=list(labels))
        info.add_metric(list(labels.values()), 1)
        yield info


def _gauge(name: str, text: str, value: float) -> Metric:
    return Gauge(f"steelyard_{name}", text, value=float(value))


def _queues(found: list[figures.Waiting], now: int) -> Iterator[Metric]:
    count = Gauge("steelyard_queue_waiting", "Workloads that wait, by queue.", labels=["queue"])
    oldest = Gauge(
        "steelyard_queue_oldest_seconds", "How long the first of a queue has waited.", labels=["queue"]
    )
    for queue in found[:MOST_NAMES]:
        count.add_metric([queue.queue], queue.workloads)
        oldest.add_metric([queue.queue], max(0, now - queue.since) / SECOND)
    if rest := found[MOST_NAMES:]:
        count.add_metric([OTHER], sum(queue.workloads for queue in rest))
        oldest.add_metric([OTHER], max(0, now - min(queue.since for queue in rest)) / SECOND)
    yield from (count, oldest)


def _evictions(made: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    """What is evicted by far more than what is asked for shows victims that were chosen badly."""
    names = sorted(made)
    shown = [(name, [made[name]]) for name in names[:MOST_NAMES]]
    if rest := names[MOST_NAMES:]:
        shown.append((OTHER, [made[name] for name in rest]))
    count = Gauge("steelyard_evictions", "Stopped for work of a queue in the last hour.", labels=["queue"])
    labels = ["queue", "class"]
    evicted = Gauge("steelyard_evicted", "What these gave up, in units of the class.", labels=labels)
    asked = Gauge("steelyard_evicted_for", "What those asked for whom they made room.", labels=labels)
    for queue, entries in shown:
        count.add_metric([queue], sum(entry["count"] for entry in entries))
        for gauge, part in ((evicted, "evicted"), (asked, "requested")):
            for device_class in DeviceClass:
                amount = sum(entry[part].get(device_class.value, 0) for entry in entries)
                if amount:
                    gauge.add_metric([queue, device_class.value], amount)
    yield from (count, evicted, asked)


def _devices(view: View) -> Iterator[Metric]:
    """Classes, health, flags and reasons are closed lists; what nothing is said of has no series."""
    for name, text, label, found in (
        ("devices", "Devices by why they are not available; empty: they are.", "reason",
         figures.device_reasons(view)),
        ("devices_ill", "Devices by health, but for healthy ones.", "health", figures.device_health(view)),
        ("devices_flagged", "Devices on which a flag stands, their own or their node's.", "flag",
         figures.device_flags(view)),
    ):  # fmt: skip
        gauge = Gauge(f"steelyard_{name}", text, labels=["class", label])
        for row in found:
            gauge.add_metric([row.device_class, row.value], row.devices)
        yield gauge


def _pools(view: View) -> Iterator[Metric]:
    causes = Counted(row["cause"] for row in closings.open_closings(view))
    shut = Gauge("steelyard_pools_closed", "Pools that let nothing new in, by cause.", labels=["cause"])
    for cause in ClosingCause:
        shut.add_metric([cause.value], causes[cause.value])
    yield shut
    standing = len(closings.verifications(view, standing=True))
    yield _gauge("verifications", "Verification records that stand.", standing)


def _clusters(view: View, now: int) -> Iterator[Metric]:
    age = Gauge(
        "steelyard_observation_age_seconds", "Since a cluster was last observed.", labels=["cluster"]
    )
    there = Gauge("steelyard_cluster_reachable", "1 while a cluster answers.", labels=["cluster"])
    for name, row in sorted(observations(view).items())[:MOST_NAMES]:
        age.add_metric([name], max(0, now - row["as_of"]) / SECOND)
        there.add_metric([name], int(bool(row["reachable"])))
    yield from (age, there)


def _lease(row: LeaseRow | None, now: int) -> Iterator[Metric]:
    if row is not None:
        yield _gauge("lease_epoch", "Raised whenever another server takes the control lease.", row.epoch)
        yield _gauge("lease_left_seconds", "Until the lease is free.", max(0, row.expires_at - now) / SECOND)
