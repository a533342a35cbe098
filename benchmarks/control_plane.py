"""Workloads a second through the whole control plane, every transition durable with its leaf.

20,000 workloads are submitted through the use case that the API calls (authorisation, routing, shape,
limits), placed by `decide`, run on the simulated engine (1 ms each), observed, released with a probe and
booked with their usage segments and receipts. Nothing is left out: SQLite in WAL with synchronous FULL,
PostgreSQL with fsync on. The time runs from the first submit to the last receipt.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import yaml
from sqlalchemy import text

from benchmarks.support import emit, progress
from steelyard.control.collector import tune
from steelyard.control.loop import ControlLoop
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services.declared import apply
from steelyard.services.documents import parse_document
from steelyard.services.live_load import SnapshotSource
from steelyard.services.workloads import Desk
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support import postgresql

ADMIN = Principal("us_0000000000000", "user", "admin", (Binding("admin", RoleName.ADMINISTRATOR, None, 1),))
#: Of ten workloads: six of cpu and memory, three with one accelerator, one gang of two with one each.
MIX = "6 × (1 cpu, 1 GiB), 3 × (1 gpu, 1 cpu, 1 GiB), 1 × gang of 2 × (1 gpu, 1 cpu, 1 GiB)"
SUBMITS_A_PASS = 400
DOCUMENTS = """
kind: Cluster
metadata: {name: sim}
spec:
  engine: simulated
  simulation:
    nodes:
    - {count: 50, prefix: n, cpu: "64", memory: 512Gi,
       devices: [{class: gpu, family: nvidia, model: A100, count: 8, memory: 80Gi}]}
    timing: {provision: 0, image: 0, environment: 0, launch: 0, stop: 0, release: 0}
---
kind: Pool
metadata: {name: pool}
spec: {cluster: sim, owner: platform, flavors: [{name: a100, class: gpu},
  {name: cores, class: cpu}, {name: ram, class: memory}]}
---
kind: Team
metadata: {name: alpha}
spec: {}
---
kind: Team
metadata: {name: bravo}
spec: {}
---
kind: Project
metadata: {name: one}
spec: {team: alpha}
---
kind: Project
metadata: {name: two}
spec: {team: bravo}
---
kind: Namespace
metadata: {name: one-dev}
spec: {project: one}
---
kind: Namespace
metadata: {name: two-dev}
spec: {project: two}
---
kind: PriorityClass
metadata: {name: normal}
spec: {value: 10}
---
kind: Cohort
metadata: {name: all}
spec: {limits: [{class: gpu, nominal: 100}]}
---
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: 300}, {class: cpu, nominal: 3000}]}
---
kind: Quota
metadata: {name: alpha}
spec: {team: alpha, limits: [{class: gpu, hard: 300, onExceed: wait}]}
---
kind: Routing
metadata: {name: default}
spec: {routes: [{queue: main, priorityClass: normal}]}
"""


def document(number: int) -> dict[str, Any]:
    """The number-th workload of the mix."""
    kind = number % 10
    requests: dict[str, Any] = (
        {"cpu": 1, "memory": "1Gi"} if kind < 6 else {"cpu": 1, "memory": "1Gi", "gpu": 1}
    )
    role = {
        "name": "main",
        "count": 2 if kind == 9 else 1,
        "command": ["train"],
        "requests": requests,
        "expect": {"run": "1ms"},
    }
    namespace = "one-dev" if number % 3 else "two-dev"
    return {
        "kind": "Workload",
        "metadata": {"name": f"w{number}", "namespace": namespace},
        "spec": {"kind": "training", "roles": [role]},
    }


def now() -> int:
    """µs UTC."""
    return time.time_ns() // 1000


def run(url: str, count: int) -> dict[str, float]:
    """All the workloads through one database."""
    store = Store(url, now)
    store.start()
    apply(store, ADMIN, [parse_document(part) for part in yaml.safe_load_all(DOCUMENTS)])

    def engine(name: str, spec: Mapping[str, Any]) -> SimulatedEngine:
        return SimulatedEngine(name, parse_simulation(spec["simulation"]), now)

    loop = ControlLoop(store, engine, lambda _reason: None, "sv_benchmark", inline=True)
    desk = Desk(store, SnapshotSource())
    for _ in range(3):
        loop.tick()
    size, commits = store.writer.state.size, store.writer.commits
    bytes_before = stored(store)
    tune()
    begun, sent = time.perf_counter(), 0
    bar = progress(f"{store.engine.dialect.name}: workloads finished", count)
    while True:
        units = [desk.plan(ADMIN, document(n)) for n in range(sent, min(count, sent + SUBMITS_A_PASS))]
        futures = [store.writer.submit(planned.unit) for planned in units]
        sent += len(units)
        for future in futures:
            future.result()
        loop.tick()
        assert loop.desk is not None
        live = len(loop.desk.context.state.by_workload)
        bar(sent - live)
        if sent == count and not live:
            break
    took = time.perf_counter() - begun
    with closing(store):
        loop.close()
        with store.read() as view:
            done = view.execute(text("SELECT count(*) FROM receipt WHERE state = 'confirmed'")).scalar_one()
            assert done == count, f"{done} receipts for {count} workloads"
        return {
            "per_s": count / took,
            "leaves_per_workload": (store.writer.state.size - size) / count,
            "commits_per_s": (store.writer.commits - commits) / took,
            "bytes_per_workload": (stored(store) - bytes_before) / count,
        }


def stored(store: Store) -> int:
    """Bytes that the database takes, its write-ahead log folded in."""
    with store.engine.connect() as connection:
        if store.engine.dialect.name == "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())


@contextmanager
def own_postgresql() -> Any:
    """A database of a server of our own, None where PostgreSQL's programs are missing."""
    folder = postgresql.make_folder()
    try:
        server = postgresql.shared_server(folder)
    except Exception as error:  # whatever keeps it from starting is said, and the figure left out
        print(f"PostgreSQL left out: {error}", file=sys.stderr)
        yield None
        return
    try:
        with postgresql.fresh_database(server) as url:
            yield url
    finally:
        postgresql.stop(folder)


def main() -> None:
    """Both databases, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="2,000 workloads instead of 20,000")
    quick = arguments.parse_args().quick
    count = 2_000 if quick else 20_000
    print(f"{count} workloads; mix of ten: {MIX}; {SUBMITS_A_PASS} submits a pass, groups of 200")
    metrics: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        found = run(sqlite_url(Path(folder)), count)
    metrics["sqlite_per_s"] = found.pop("per_s")
    metrics.update(found)
    with own_postgresql() as url:
        if url is not None:
            metrics["postgresql_per_s"] = run(url, count)["per_s"]
    metrics["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    emit("control_plane", quick, metrics)


if __name__ == "__main__":
    main()
