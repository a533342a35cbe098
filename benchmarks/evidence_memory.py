"""Memory and time of what reads the whole house: all checks (CK1 to CK9, the log), and an evidence bundle.

20,000 finished workloads (those of control_plane: about 100,000 leaves) on SQLite. Each figure is taken by a
process of its own that does nothing else: the highest resident memory it ever had (VmHWM), less what it had
when its store was open, and the wall time. The bundle is written as the API sends it, and read to its end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.control_plane import ADMIN, now, run
from benchmarks.support import emit
from steelyard.services.bundle_export import export_bundle, read_pieces, spooled_tar
from steelyard.services.checks import check_everything
from steelyard.services.keys import open_log_key
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store

COUNT, QUICK = 20_000, 3_000


def status_mb(name: str) -> float:
    """A figure of this process's /proc/self/status, MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def build(folder: Path, count: int) -> dict[str, float]:
    """The house."""
    run(sqlite_url(folder), count)
    return {}


def checks(folder: Path, _count: int) -> dict[str, float]:
    """Every check."""
    return _measured(folder, lambda store: float(sum(result.checked for result in check_everything(store))))


def bundle(folder: Path, _count: int) -> dict[str, float]:
    """The bundle, to its last byte; its size in MiB."""

    def written(store: Store) -> float:
        files = export_bundle(store, ADMIN, open_log_key(store, folder))
        return sum(len(piece) for piece in read_pieces(spooled_tar(files))) / 2**20

    return _measured(folder, written)


def _measured(folder: Path, work: object) -> dict[str, float]:
    store = Store(sqlite_url(folder), now)
    store.start()
    before, began = status_mb("VmRSS:"), time.perf_counter()
    result = work(store)  # type: ignore[operator]
    found = {"mb": status_mb("VmHWM:") - before, "s": time.perf_counter() - began, "result": result}
    found["leaves"] = float(store.writer.state.size)
    store.close()
    return found


STEPS = {"build": build, "checks": checks, "bundle": bundle}


def apart(step: str, folder: Path, count: int) -> dict[str, float]:
    """A step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder), "--count", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """All steps, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help=f"{QUICK:,} workloads instead of {COUNT:,}")
    for name, kind in (("--step", str), ("--folder", Path), ("--count", int)):
        arguments.add_argument(name, type=kind, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.step:
        print(json.dumps(STEPS[given.step](given.folder, given.count)))
        return
    count = QUICK if given.quick else COUNT
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apart("build", folder, count)
        checked, packed = apart("checks", folder, count), apart("bundle", folder, count)
    print(f"{count:,} workloads, {int(checked['leaves']):,} leaves; bundle of {packed['result']:,.0f} MiB")
    metrics = {"checks_mb": checked["mb"], "checks_s": checked["s"]}
    metrics.update({"bundle_mb": packed["mb"], "bundle_s": packed["s"], "bundle_size_mb": packed["result"]})
    emit("evidence_memory", given.quick, metrics)


if __name__ == "__main__":
    main()
