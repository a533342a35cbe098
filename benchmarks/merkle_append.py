"""Leaves a second into the log, durable, and hashed anew up to the root.

200,000 leaves as workloads make them (five each: submit, place, start, end, finish; four streams,
transitions, details) go through the store's own writer: sequenced into their streams, encoded, hashed,
stored with their tiles and stream heads in SQLite (WAL, synchronous FULL) by groups of 200, a commit each.
Then all stored leaves are read back and hashed up to the root that the log row carries. Making the drafts is
not counted.

Compared, in the same run, to the same leaves with a commit each, and to the reference encoder of RFC 8785.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support import emit, progress
from steelyard.evidence.leaf import ActorRef, Head, LeafDraft, Transition, verify_bodies
from steelyard.model.ids import render
from steelyard.store.audit import log_frontier
from steelyard.store.database import SQLITE_NAME, sqlite_url
from steelyard.store.leaves import bodies
from steelyard.store.store import Store
from steelyard.store.unit import NO_HEAD, Unit

try:
    import rfc8785
except ImportError:  # comes with the test tools
    rfc8785 = None  # type: ignore[assignment]

GROUP = 200
QUICK, WHOLE = 60_000, 200_000
STAGES = (
    ("workload.submit", None, "queued"), ("workload.place", "queued", "starting"),
    ("workload.start", "starting", "running"), ("workload.end", "running", "releasing"),
    ("workload.finish", "releasing", "finished"),
)  # fmt: skip
USERS = [ActorRef(render("user", 7_000_000 + n)) for n in range(20)]
CONTROL = ActorRef("control", "control")
AT = 1_800_000_000_000_000


def groups(total: int) -> Iterator[list[Unit]]:
    """Groups of units of one leaf each: 200 workloads go through their five stages side by side."""
    for first in range(0, total // len(STAGES), GROUP):
        heads: dict[int, Head] = {}
        for stage in range(len(STAGES)):
            yield [_unit(number, stage, heads) for number in range(first, first + GROUP)]


def _unit(number: int, stage: int, heads: dict[int, Head]) -> Unit:
    action, before, after = STAGES[stage]
    unit = Unit(USERS[number % len(USERS)] if stage == 0 else CONTROL)
    draft = LeafDraft(
        action=action,
        object_kind="workload",
        object_id=render("workload", 1_000_000_000_000 + number),
        version_before=stage or None,
        version_after=stage + 1,
        rule_version=12,
        transitions=(Transition(at=AT + number, from_=before, to=after),),
        project=f"project-{number % 10}",
        cluster="west" if stage else None,
        extra={"requested": {"cpu": 4000, "gpu": 1000, "memory": 16384}, "node": f"n{number % 50}"},
    )

    def keep(head: Head) -> None:
        heads[number] = head

    unit.leaf(draft, None, heads.get(number, NO_HEAD), keep)
    return unit


def append(store: Store, total: int) -> float:
    """Leaves a second, the commits included."""
    show = progress("append", total)
    spent, done = 0.0, 0
    for group in groups(total):
        start = time.perf_counter()
        store.writer.write_now(group)
        spent += time.perf_counter() - start
        done += len(group)
        show(done)
    return done / spent


def verify(store: Store) -> float:
    """Leaves a second, read and hashed up to the root. Fails when it is not the log's."""
    start = time.perf_counter()
    with store.read() as view:
        _, stored = log_frontier(view)
        made = verify_bodies(bodies(view, 0, stored.size))
    if (made.size, made.root()) != (stored.size, stored.root()):
        raise SystemExit("the stored leaves do not hash to the log's root")
    return made.size / (time.perf_counter() - start)


def append_singly(store: Store) -> float:
    """Leaves a second with a commit each."""
    made = [unit for group in groups(len(STAGES) * GROUP) for unit in group[:1]] * 40
    start = time.perf_counter()
    for unit in made:
        store.writer.write_now([unit])
    return len(made) / (time.perf_counter() - start)


def _sample(store: Store) -> list[dict[str, Any]]:
    with store.read() as view:
        return [json.loads(body) for body in bodies(view, 0, 2_000)]


def encoders(sample: list[dict[str, Any]]) -> dict[str, float]:
    """Leaves a second that the reference encoder only encodes; nothing where it is not installed."""
    if rfc8785 is None:
        return {}
    start = time.perf_counter()
    for leaf in sample:
        rfc8785.dumps(leaf)
    return {"rfc8785_encode_only_per_s": len(sample) / (time.perf_counter() - start)}


def main() -> None:
    """Both figures, on a store of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} leaves instead of {WHOLE:,}")
    quick = parser.parse_args().quick
    total = QUICK if quick else WHOLE
    print(f"{total:,} leaves of about 900 bytes, {GROUP} a commit, SQLite WAL, synchronous FULL")
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as folder:
        with closing(Store(sqlite_url(Path(folder)), lambda: time.time_ns() // 1000)) as store:
            leaves_per_s = append(store, total)
            verify_per_s = verify(store)
            sample = _sample(store)
            singly = append_singly(store)
        size = (Path(folder) / SQLITE_NAME).stat().st_size
    metrics = {"leaves_per_s": leaves_per_s, "verify_per_s": verify_per_s, "bytes_per_leaf": size / total}
    peers = {"one_commit_a_leaf_per_s": singly, **encoders(sample)}
    emit("merkle_append", quick, metrics, peers)


if __name__ == "__main__":
    main()
