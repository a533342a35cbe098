"""What a server at rest takes, and how long the command line's help takes.

A real `steelyard up` on SQLite in a data folder of its own, the example pool of `examples/minimal` applied
(one local and one simulated cluster), looked at from outside, in /proc:

server_rss_mb     resident memory of the server after it was left alone for 20 s
idle_cpu_percent  its processor time over the next 15 s, in percent of one core
help_s            median wall time of `steelyard --help`

Peers: the runner's own memory and processor time in the same window; and the interpreter's, starting and
ending with nothing to do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support import emit, progress
from tests.support.server import PROGRAM, Server, environment, processes_of

MINIMAL = Path(__file__).resolve().parent.parent / "examples" / "minimal"
PARTS = ("clusters", "pools", "organisation", "policy")
TICKS = os.sysconf("SC_CLK_TCK")
REST_SECONDS, WATCH_SECONDS = 20, 15
HELP_RUNS = 15


def rss_mb(pid: int) -> float:
    """Resident memory of a process, MiB (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rest(label: str, seconds: int) -> None:
    """Let time pass, visibly."""
    bar = progress(label, seconds)
    for second in range(seconds):
        time.sleep(1)
        bar(second + 1)


def at_rest(folder: Path, quick: bool) -> tuple[dict[str, float], dict[str, float]]:
    """The server's figures, and the runner's beside them."""
    server = Server(folder / "data")
    try:
        server.start()
        server.apply("---\n".join((MINIMAL / f"{part}.yaml").read_text() for part in PARTS))
        server.wait_for(lambda: len(server.pages("/v1/inventory")) >= 4)
        assert server.process is not None
        rest("the server is left alone", 8 if quick else REST_SECONDS)
        watched = {"server": server.process.pid}
        watched |= {found.kind: found.pid for found in processes_of(server.folder) if found.kind == "runner"}
        begun = time.monotonic()
        before = {name: cpu_seconds(pid) for name, pid in watched.items()}
        rest("and watched", WATCH_SECONDS)
        took = time.monotonic() - begun
        idle = {name: 100 * (cpu_seconds(pid) - before[name]) / took for name, pid in watched.items()}
        memory = {name: rss_mb(pid) for name, pid in watched.items()}
    finally:
        server.close()
    metrics = {"server_rss_mb": memory["server"], "idle_cpu_percent": idle["server"]}
    peers = (
        {"runner_rss_mb": memory["runner"], "runner_idle_cpu_percent": idle["runner"]}
        if "runner" in idle
        else {}
    )
    return metrics, peers


def median_s(command: list[str], runs: int, label: str, home: Path) -> float:
    """Median wall time of a command, seconds; one run before, so that files are in memory."""
    bar, taken = progress(label, runs), []
    for run in range(-1, runs):
        begun = time.perf_counter()
        subprocess.run(command, env=environment(home), stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - begun)
        bar(max(run + 1, 0))
    return statistics.median(taken[1:])


def main() -> None:
    """All figures, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--quick", action="store_true", help="8 s at rest instead of 20, 7 runs instead of 15"
    )
    quick = arguments.parse_args().quick
    runs = 7 if quick else HELP_RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        help_s = median_s([str(PROGRAM), "--help"], runs, "steelyard --help", folder)
        bare_s = median_s([sys.executable, "-c", "pass"], runs, "python -c pass", folder)
        metrics, peers = at_rest(folder, quick)
    emit("footprint", quick, {**metrics, "help_s": help_s}, {**peers, "bare_interpreter_s": bare_s})


if __name__ == "__main__":
    main()
