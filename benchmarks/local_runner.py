"""Real processes a second on this machine, from the request to the proven release.

2,000 × /bin/true in 8 slots through a real `steelyard up`: submitted over HTTP in bulk, admitted, placed by
`decide`, started under a shim each, seen to end, released by a live probe, booked with receipt and usage.
Every transition is durable with its leaf (SQLite, WAL, synchronous FULL); the time runs from the first byte
sent to the last receipt confirmed. One run for each isolation mode that this machine can do, with a tenth
of the processes where each is in a container.

Peers, in the same run and on the same work: a bare `posix_spawn` loop (one after the other), an asyncio loop
with 8 slots, and HyperQueue's LocalCluster with 8 cores where its package is installed. None of them keeps
anything that survives a crash, limits a process, or proves what was given back.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.footprint import cpu_seconds, rss_mb
from benchmarks.support import emit, progress
from tests.support import containers
from tests.support.server import LOCAL_DOCUMENTS, Server, document, processes_of

SLOTS = 8
#: One process in 8 slots of 200 milli-cores: wide enough that no limit of CPU slows /bin/true down.
REQUESTS = {"cpu": "200m", "memory": "8Mi"}
DOCUMENTS = LOCAL_DOCUMENTS.replace('nominal: "64"', f"nominal: {SLOTS * 200}m")
MODES = {
    "steelyard": "none",
    "steelyard_uid": "user-id",
    "steelyard_bwrap": "bubblewrap",
    "steelyard_podman": "container",
}
#: podman alone takes some hundred milliseconds of CPU for each: a part of them tells the rate.
CONTAINERS_ARE_FEWER = 10
BULK = 500
MOST_ASKED = 50
ANSWER_SECONDS, READY_SECONDS = 600.0, 30.0


def children_seconds(pid: int) -> float:
    """Processor time of the children that a process waited for, theirs included (proc(5), fields 16, 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def live(server: Server) -> int:
    """Workloads that have not ended with a release proven; MOST_ASKED stands for more: asking costs, too."""
    return len(server.get("/v1/workloads", phase="live", limit=MOST_ASKED)["items"])


@contextmanager
def image_for(mode: str) -> Iterator[dict[str, str]]:
    """What a role says to run in this mode: for containers an image, STEELYARD_BENCH_IMAGE or one made
    here, of a static busybox. ValueError says why there is none."""
    named = os.environ.get("STEELYARD_BENCH_IMAGE")
    if mode != "container" or named is not None:
        yield {} if mode != "container" else {"image": str(named)}
        return
    if (reason := containers.why_not()) is not None:
        raise ValueError(reason)
    with containers.image(f"localhost/steelyard-bench-{os.getpid()}:1") as made:
        yield {"image": made}


def prepared(server: Server, mode: str, role: dict[str, str]) -> str | None:
    """None once the cluster offers its cores in this mode, else why it does not."""
    server.start()
    declared = f"spec: {{engine: local, isolation: {{mode: {mode}}}}}"
    server.apply(DOCUMENTS.replace("spec: {engine: local}", declared))
    first = server.submit("first", ["/bin/true"], requests=REQUESTS, role=role)
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        view = server.get(f"/v1/workloads/{first}")
        if view["phase"] == "finished":
            verdict = view["verdict"] or {}
            return None if view["outcome"] == "succeeded" else str(verdict.get("code"))
        time.sleep(0.05)
    return "not started in time"


def run(name: str, mode: str, count: int) -> dict[str, float] | None:
    """Figures of one isolation mode, None where this machine can't do it."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "data")
        try:
            with image_for(mode) as role:
                why_not = prepared(server, mode, role)
                if why_not is None:
                    return _timed(server, name, count, role)
        except ValueError as missing:
            why_not = str(missing)
        finally:
            server.close()
    print(f"{name} left out: {mode}: {why_not}", file=sys.stderr)
    return None


def _timed(server: Server, name: str, count: int, role: dict[str, str]) -> dict[str, float]:
    assert server.process is not None
    runner = next(found.pid for found in processes_of(server.folder) if found.kind == "runner")
    pids = (server.process.pid, runner)
    spent = sum(cpu_seconds(pid) + children_seconds(pid) for pid in pids)
    bar = progress(f"{name}: releases proven", count)
    begun = time.perf_counter()
    for sent in range(0, count, BULK):
        documents = [
            document(f"t{number}", ["/bin/true"], requests=REQUESTS, role=role)
            for number in range(sent, min(count, sent + BULK))
        ]
        results = server.post("/v1/workloads:submit", {"documents": documents})["results"]
        assert all(result["status"] == 201 for result in results), results[0]
    deadline = time.monotonic() + ANSWER_SECONDS
    while rest := live(server):
        assert time.monotonic() < deadline, f"{rest} are left"
        if rest < MOST_ASKED:
            bar(count - rest)
        time.sleep(0.05 if rest < MOST_ASKED else 0.2)
    took = time.perf_counter() - begun
    bar(count)
    failed = [row["name"] for row in server.pages("/v1/workloads") if row["outcome"] != "succeeded"]
    assert not failed, f"did not succeed: {failed[:5]}"
    spent = sum(cpu_seconds(pid) + children_seconds(pid) for pid in pids) - spent
    return {"per_s": count / took, "cpu_ms": 1000 * spent / count, "rss_mb": sum(map(rss_mb, pids))}


# ---- peers ------------------------------------------------------------------------------------------


def posix_spawn_per_s(count: int) -> float:
    """One after the other."""
    begun = time.perf_counter()
    for _ in range(count):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return count / (time.perf_counter() - begun)


def asyncio_per_s(count: int) -> float:
    """`asyncio.create_subprocess_exec` in 8 slots."""

    async def one(slots: asyncio.Semaphore) -> None:
        async with slots:
            process = await asyncio.create_subprocess_exec("/bin/true")
            await process.wait()

    async def all_of_them() -> None:
        slots = asyncio.Semaphore(SLOTS)
        await asyncio.gather(*(one(slots) for _ in range(count)))

    begun = time.perf_counter()
    asyncio.run(all_of_them())
    return count / (time.perf_counter() - begun)


def hyperqueue_per_s(count: int) -> float | None:
    """One job of `count` tasks on a worker of 8 cores; None where the package is missing."""
    if find_spec("hyperqueue") is None:
        print("HyperQueue left out: its package is not installed (pip install hyperqueue)", file=sys.stderr)
        return None
    from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
    from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]

    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=SLOTS))
        client = cluster.client()
        job = Job()
        for _ in range(count):
            job.program(["/bin/true"], stdout=None, stderr=None)
        begun = time.perf_counter()
        client.wait_for_jobs([client.submit(job)])
        return count / (time.perf_counter() - begun)


def main() -> None:
    """Every mode and every peer, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="400 processes instead of 2,000")
    arguments.add_argument("--mode", choices=[*MODES], help="this mode alone")
    asked = arguments.parse_args()
    count = 400 if asked.quick else 2_000
    print(f"{count} × /bin/true, {SLOTS} slots, submit … release confirmed")
    metrics: dict[str, float | None] = {}
    for name, mode in MODES.items():
        number = count // CONTAINERS_ARE_FEWER if mode == "container" else count
        found = run(name, mode, number) if asked.mode in (None, name) else None
        if found is not None:
            metrics[f"{name}_per_s"] = found["per_s"]
            metrics.setdefault("cpu_ms_per_workload", found["cpu_ms"])
            metrics.setdefault("rss_mb", found["rss_mb"])
    peers = {
        "posix_spawn_per_s": posix_spawn_per_s(count),
        "asyncio_per_s": asyncio_per_s(count),
        "hyperqueue_per_s": hyperqueue_per_s(count),
    }
    told = {key: round(value, 1) for key, value in peers.items() if value is not None}
    emit("local_runner", asked.quick, metrics, told)


if __name__ == "__main__":
    main()
