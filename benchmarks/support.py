"""What every benchmark prints: readable lines, a bar while it works, and one JSON line at the end."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

_WIDTH = 30


def progress(label: str, total: int) -> Callable[[int], None]:
    """A bar on stderr while it is a terminal; call it with what is done."""
    if not sys.stderr.isatty() or total <= 0:
        return lambda _done: None

    def show(done: int) -> None:
        filled = _WIDTH * min(done, total) // total
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\r{label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total}{end}")
        sys.stderr.flush()

    return show


def machine() -> dict[str, str | int | None]:
    """What it ran on: processor, cores, memory, kernel and the versions that matter."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "sqlalchemy": version("sqlalchemy"),
        "msgspec": version("msgspec"),
    }


def _cpu() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def emit(
    name: str, quick: bool, metrics: Mapping[str, float | None], peers: Mapping[str, float] | None = None
) -> None:
    """The figures for people, then the JSON line. A figure that could not be taken is left out."""
    taken = {key: round(value, 3) for key, value in metrics.items() if value is not None}
    for key, value in {**taken, **(peers or {})}.items():
        print(f"{key:>28}  {value:,.1f}" if abs(value) >= 100 else f"{key:>28}  {value:,.3f}")
    line = {"benchmark": name, "quick": quick, "metrics": taken, "peers": peers or {}, "machine": machine()}
    print(json.dumps(line), flush=True)
