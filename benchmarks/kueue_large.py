"""Kueue's large-scale configuration through the whole control plane: 50,000 workloads in 1,000 queues that
arrive within seconds, durable, on the machine's clock. Work ÷ capacity is 4 s: what is measured is the
store and the loop, which takes turns with what submits, since all is due long before it is taken in.
`--quick`: Kueue's baseline, a tenth of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.kueue import LARGE, PUBLISHED_LARGE, QUICK
from benchmarks.kueue_run import run
from benchmarks.policies import told
from benchmarks.support import emit
from steelyard.store.database import sqlite_url

PROFILE = "kueue-strict"


def main() -> None:
    """One run, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="1,500 workloads")
    quick = arguments.parse_args().quick
    load = QUICK if quick else LARGE
    print(f"{load.name}: {load.total:,} workloads, {len(load.names)} queues; not before {load.bound_s:.1f} s")
    print(told(PROFILE))
    with tempfile.TemporaryDirectory() as folder:
        found = run(sqlite_url(Path(folder)), load, PROFILE, virtual=False)
    metrics = {
        "wall_s": found.wall_s,
        "processor_s": found.processor_s,
        "per_s": load.total / found.wall_s,
        "evictions": found.evictions,
        "rss_mb": found.rss_mb,
    }
    emit("kueue_large", quick, metrics, PUBLISHED_LARGE)


if __name__ == "__main__":
    main()
