"""The inventory at size: a whole refresh, a past instant, memory, and one round of each family's tool.

10,000 simulated nodes of 8 accelerators, cores and memory. A refresh is all of it: the engine lists every
node, and the loop books what is not as before (0.2 % of the accelerators turn bad, as many well again), with
its leaves and a scheduling cycle. A past instant is a page of 50 nodes with their 500 devices (states, flags,
facts, holders, pools, labels) at an instant and from a node chosen at random. A probe is a stand-in tool that
prints a sample, run and read as the real one would be; its time is mostly that of starting a program.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support import emit, progress
from steelyard.control.collector import tune
from steelyard.devices.ask import Asker
from steelyard.devices.probes import load_probes
from steelyard.devices.settings import DeviceSettings
from steelyard.model.ids import render
from steelyard.model.units import SECOND
from steelyard.services.inventory_past import nodes_at, summary_at
from steelyard.store.database import sqlite_url
from steelyard.store.inventory import open_conditions
from tests.support.device_samples import all_parts
from tests.support.house import ADMIN, DOCUMENTS, House

ROUNDS = 8
PAGES = 200
_OLD = "{count: 2, prefix: n,"


def documents(nodes: int) -> str:
    """The house of the tests with many nodes; every ten seconds other ones turn bad for five."""
    digits = len(str(nodes - 1))
    suffer = []
    for turn in range(1, ROUNDS + 1):
        tail = f"{turn:02d}"
        pattern = "n-" + "[12]" + "?" * (digits - 3) + tail
        suffer.append(
            f'    - {{fault: device-health, match: {{node: "{pattern}"}}, health: unhealthy, sign: xid,'
            f" at: {turn * 10}s, for: 5s}}"
        )
    text = DOCUMENTS.replace(_OLD, f"{{count: {nodes}, prefix: n,").replace(
        "model: A100, count: 4,", "model: A100, count: 8,"
    )
    told = "release: 10ms}\n    suffer:\n" + "\n".join(suffer) + "\n---"
    return text.replace("release: 10ms}\n---", told, 1)


def refresh(house: House) -> float:
    """Seconds of one."""
    begun = time.perf_counter()
    house.loop.agents["sim"].look_at_inventory()
    house.loop.tick()
    return time.perf_counter() - begun


def measure(nodes: int) -> dict[str, float | None]:
    """The figures of the inventory."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        house = House(sqlite_url(Path(folder)), Path(folder), documents(nodes))
        house.tick(3)
        registered = time.perf_counter() - begun
        instants, times = [house.store.now()], []
        for number in range(8):
            requests = {"cpu": "1", "memory": "1Gi", "gpu": 1}
            house.submit(f"w{number}", requests=requests, expect={"run": "1h"})
        house.tick(4)
        bar = progress("refreshes", ROUNDS)
        ill = 160 if nodes == 10_000 else min(nodes // 1000 - 1, 2) * 80
        for turn in range(ROUNDS):
            house.clock.advance(10 * SECOND)
            times.append(refresh(house))
            with house.store.read() as view:
                assert len(open_conditions(view, None)) == ill, "what turned bad was not booked"
            instants.append(house.store.now())
            bar(turn + 1)
        quiet = min(refresh(house) for _ in range(3))
        past, sums = past_instants(house, instants)
        used = psutil.Process(os.getpid()).memory_info().rss / 2**20
        house.loop.close()
        house.store.close()
    return {
        "refresh_s": statistics.median(times),
        "refresh_unchanged_s": quiet,
        "first_inventory_s": registered,
        "past_instant_p99_ms": past[1],
        "past_instant_p50_ms": past[0],
        "past_sums_ms": sums,
        "rss_mb": used,
    }


def past_instants(house: House, instants: list[int]) -> tuple[tuple[float, float], float]:
    """((median, p99) of a page, one look at all sums) in milliseconds."""
    chance = random.Random(5)
    assert house.loop.desk is not None
    numbers = sorted(n.id for n in house.loop.desk.context.state.nodes.values() if n.cluster == "sim")
    times = []
    for _ in range(PAGES):
        at = chance.randrange(instants[0], instants[-1])
        cursor = render("node", numbers[chance.randrange(max(1, len(numbers) - 51))])
        begun = time.perf_counter()
        shown, _ = nodes_at(house.store, ADMIN, at, cluster="sim", cursor=cursor, limit=50)
        times.append((time.perf_counter() - begun) * 1000)
        assert len(shown) == 50
    begun = time.perf_counter()
    summary_at(house.store, ADMIN, instants[len(instants) // 2])
    whole = (time.perf_counter() - begun) * 1000
    return (statistics.median(times), sorted(times)[int(len(times) * 0.99) - 1]), whole


def probes(rounds: int) -> dict[str, float]:
    """probe_ms_FAMILY: one round of its tool, the median."""
    texts = {}
    for part in all_parts():
        texts.setdefault(part.tool, []).append(part.text)
    found = {}
    for family, probe in sorted(load_probes().items()):
        for text in texts.get(probe.tools[0].name, []):
            took = _asked(family, text, rounds)
            if took is not None:
                found[f"probe_ms_{family}"] = took
                break
    return found


def _asked(family: str, text: str, rounds: int) -> float | None:
    """Milliseconds; None where this text lists no device."""
    probe = load_probes()[family]
    folder = Path(tempfile.mkdtemp(prefix="steelyard-tools-"))
    try:
        folder.chmod(0o755)
        (folder / "said").write_text(text, encoding="utf-8")
        tool = folder / probe.tools[0].name
        tool.write_text('#!/bin/sh\nexec cat "${0%/*}/said"\n')
        tool.chmod(0o755)
        asker = Asker(probe, DeviceSettings(tools=(str(folder),), simulated=True), threading.Event())
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            if not asker.ask(lambda: 7).readings:
                return None
            times.append((time.perf_counter() - begun) * 1000)
        return statistics.median(times)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int)
    quick = os.environ.get("QUICK") == "1"
    nodes = parser.parse_args().nodes or (2_000 if quick else 10_000)
    tune()  # as the server does
    figures = {**measure(nodes), **probes(3 if quick else 9)}
    emit("inventory", quick, figures)


if __name__ == "__main__":
    main()
