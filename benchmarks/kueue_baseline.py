"""Kueue's baseline through the whole control plane: 15,000 workloads in 30 queues that arrive in a minute,
durable, on the machine's clock, once under strict priority and once under declared ageing. A thread of its
own submits each when it is due.

Then the same work at random instants of the same minute, on a virtual clock, by both profiles (`other`).
Time to admission counts from when the generator submits. Work ÷ capacity bounds the whole from below by 66 s.
`--quick`: a tenth of it on a virtual clock, which says nothing about the store.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.kueue import BASELINE, OTHER, OTHER_QUICK, PUBLISHED, QUICK
from benchmarks.kueue_run import run
from benchmarks.policies import told
from benchmarks.support import emit
from steelyard.store.database import sqlite_url

PROFILES = {"strict": "kueue-strict", "aged": "kueue-aged"}


def main() -> None:
    """Both profiles, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a tenth, on a virtual clock")
    quick = arguments.parse_args().quick
    load = QUICK if quick else BASELINE
    print(f"{load.name}: {load.total:,} workloads, {len(load.names)} queues; not before {load.bound_s:.1f} s")
    metrics: dict[str, float] = {}
    for name, profile in PROFILES.items():
        print(told(profile))
        with tempfile.TemporaryDirectory() as folder:
            found = run(sqlite_url(Path(folder)), load, profile, virtual=quick, beside=not quick)
        print(f"{name}: {found.wall_s:.1f} s, of which {found.processor_s:.1f} s of one processor")
        metrics[f"{name}_wall_s"] = found.wall_s
        metrics |= {f"{name}_{size}_s": mean for size, mean in found.means.items()}
        metrics[f"{name}_evictions"] = found.evictions
        metrics[f"{name}_lost_unit_s"] = found.lost_unit_s
        metrics["rss_mb"] = found.rss_mb
    other = OTHER_QUICK if quick else OTHER
    for name, profile in PROFILES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = run(sqlite_url(Path(folder)), other, profile, virtual=True)
        print(f"{name}, {other.name}: {found.wall_s:.1f} s of virtual time")
        metrics[f"{name}_other_wall_s"] = found.wall_s
        metrics |= {f"{name}_other_{size}_s": mean for size, mean in found.means.items()}
    emit("kueue_baseline", quick, {**metrics, "bound_s": load.bound_s}, PUBLISHED)


if __name__ == "__main__":
    main()
