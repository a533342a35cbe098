"""Kill -9 at random moments while work runs: nothing is lost, nothing runs twice, the books are exact.

The seed is printed with the figures, so that a run can be repeated.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.books import check_books
from tests.support.server import LOCAL_DOCUMENTS, Server, document, kill_runner, note

SUBMITTERS = 4


@dataclass
class Run:
    """Who is killed how often, and what runs meanwhile. `victims` is drawn from; with one for each kill, each
    is drawn once."""

    seed: int
    kills: int
    workloads: int
    longest: float  # seconds a workload sleeps at most
    shortest: float = 1.0  # and at least
    victims: tuple[str, ...] = ("server",)
    pause: float = 3.0  # seconds between kills at most
    cancels: float = 0.0  # share of the workloads that their owner cancels
    killed: Counter[str] = field(default_factory=Counter)


class KillRun:
    """One run over one data folder."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.run = run
        self.random = random.Random(run.seed)
        self.server = Server(folder / "data")
        self.names = [f"kill-{index:04d}" for index in range(run.workloads)]
        self.sleeps = {name: self.random.uniform(run.shortest, run.longest) for name in self.names}
        self.cancels = {name for name in self.names if self.random.random() < run.cancels}
        self.victims = list(run.victims) if len(run.victims) == run.kills else None
        self.random.shuffle(self.victims or [])
        self.ids: dict[str, str] = {}
        self.up = threading.Event()
        self.figures: dict[str, Any] = {}

    def go(self) -> None:
        """Submit and kill at the same time, then wait until everything has ended, and check."""
        began = time.monotonic()
        self.server.start()
        self.server.apply(LOCAL_DOCUMENTS)
        self.up.set()
        with ThreadPoolExecutor(SUBMITTERS) as pool:
            submits = [pool.submit(self.submit, name) for name in self.names]
            for _ in range(self.run.kills):
                self.kill_once()
            self.server.wait_ready()
            self.up.set()
            for each in submits:
                each.result()
        self.figures["killing_s"] = round(time.monotonic() - began, 1)
        ended, seconds = {"finished": self.run.workloads}, self.run.longest + 240
        self.server.wait_for(lambda: self.count("phase") == ended, seconds, 0.5)
        self.figures["all_s"] = round(time.monotonic() - began, 1)

    def submit(self, name: str) -> None:
        """One workload; some are cancelled a little later."""
        script = (
            f'echo "started $STEELYARD_ATTEMPT {name}"; '
            f"sleep {self.sleeps[name]:.2f}; exit {exit_code(name)}"
        )
        body = document(name, ["/bin/sh", "-c", script])
        self.ids[name] = self.insist(name, "/v1/workloads", body, 201)["id"]
        if name in self.cancels:
            time.sleep(min(self.sleeps[name] / 3, 2.0))
            self.insist(f"cancel-{name}", f"/v1/workloads/{self.ids[name]}/cancel", None, 202)

    def insist(self, key: str, path: str, body: Any, status: int) -> Any:
        """Again and again with one key until it is answered: a lost answer makes nothing twice."""
        while True:
            self.up.wait()
            try:
                answer = self.server.client.post(path, json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == 503:
                continue
            assert answer.status_code in (status, 409), answer.text  # 409: it has ended meanwhile
            return answer.json()

    def kill_once(self) -> None:
        """Wait a random time and kill; the server may not even be ready by then."""
        time.sleep(self.random.uniform(0, self.run.pause))
        victim = self.victims.pop() if self.victims else self.random.choice(self.run.victims)
        if victim != "server":
            self.run.killed["runner"] += kill_runner(self.server.folder)
        if victim != "runner":
            self.up.clear()
            self.server.kill()
            self.run.killed["server"] += 1
            self.server.launch()
            if self.random.random() < 0.3:
                return  # the next kill may meet it while it starts
        self.server.wait_ready()
        self.up.set()

    def count(self, key: str) -> Counter[str]:
        """How many workloads there are of each value."""
        return Counter(row[key] for row in self.server.pages("/v1/workloads"))

    # ---- afterwards

    def check(self) -> None:
        """Everything that must hold."""
        self.check_workloads()
        self.check_devices()
        check_books(self.server)
        self.server.stop()
        self.check_marks()
        note(self.server.folder, seed=self.run.seed, killed=self.run.killed, **self.figures)

    def check_workloads(self) -> None:
        """None lost or doubled, one attempt each, each exit code right, each release confirmed."""
        rows = {row["name"]: row for row in self.server.pages("/v1/workloads")}
        assert sorted(rows) == self.names
        assert {name: row["id"] for name, row in rows.items()} == self.ids
        wrong = {}
        for name, workload_id in self.ids.items():
            view = self.server.get(f"/v1/workloads/{workload_id}")
            code = exit_code(name)
            seen = [
                (a["number"], a["outcome"], [m["exit_code"] for m in a["members"]], a["receipt"]["state"])
                for a in view["attempts"]
            ]
            expected = [(1, "failed" if code else "succeeded", [code], "confirmed")]
            if seen != expected and not (name in self.cancels and _is_cancelled(view)):
                wrong[name] = (code, seen, view["verdict"])
        assert not wrong, json.dumps(wrong, indent=1)[:4000]

    def check_devices(self) -> None:
        """Nothing is held any more, and nothing was put aside."""
        devices = [d for node in self.server.get("/v1/inventory")["items"] for d in node["devices"]]
        states = {(d["held"], d["free"] == d["capacity"], d["state"]) for d in devices}
        assert states == {(0, True, "available")}

    def check_marks(self) -> None:
        """Each program wrote one line into one log: it was executed once."""
        database = sqlite3.connect(self.server.folder / "steelyard.db")
        (attempts,) = database.execute("SELECT count(*) FROM attempt").fetchone()
        spans = database.execute("SELECT started, ended FROM attempt WHERE started IS NOT NULL").fetchall()
        database.close()
        changes = sorted([(at, 1) for at, _ in spans] + [(at, -1) for _, at in spans])
        self.figures["most_at_once"] = max(accumulate(step for _, step in changes))
        logs = (log.read_text().splitlines() for log in (self.server.folder / "local/logs").glob("*.log"))
        lines = [line.split() for log in logs for line in log if line.startswith("started ")]
        started = Counter(name for _, _, name in lines)
        assert started.keys() <= set(self.names)
        assert set(self.names) - started.keys() <= self.cancels, "some never started"
        assert {name: count for name, count in started.items() if count != 1} == {}
        assert len({attempt for _, attempt, _ in lines}) == len(lines)
        assert attempts == len(self.names)


def _is_cancelled(view: dict[str, Any]) -> bool:
    """Withdrawn before it started, or stopped and its release confirmed."""
    (attempt,) = view["attempts"]
    if view["outcome"] == "withdrawn":
        return attempt["receipt"] is None
    return view["outcome"] == "cancelled" and attempt["receipt"]["state"] == "confirmed"


def exit_code(name: str) -> int:
    """A function of the name: every third succeeds."""
    number = int(name.rpartition("-")[2])
    return 0 if number % 3 == 0 else number % 100 + 1


def carry_out(folder: Path, run: Run) -> None:
    """A whole run with its checks; no process of its folder is left."""
    made = KillRun(folder, run)
    try:
        made.go()
        made.check()
    finally:
        made.server.close()


@pytest.mark.requirement("G2", "G4", "K8")
def test_a_server_killed_at_random_moments_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    carry_out(tmp_path, Run(seed=11, kills=5, workloads=60, longest=12))


def test_a_runner_killed_at_random_moments_loses_nothing_and_runs_nothing_twice(tmp_path: Path) -> None:
    carry_out(tmp_path, Run(seed=12, kills=5, workloads=40, longest=6, victims=("runner",), pause=1.5))


def test_server_and_runner_killed_while_work_is_cancelled_lose_nothing_and_run_nothing_twice(
    tmp_path: Path,
) -> None:
    victims = ("server", "runner", "both", "both")
    carry_out(
        tmp_path, Run(seed=13, kills=5, workloads=40, longest=8, victims=victims, pause=2.0, cancels=0.4)
    )


@pytest.mark.soak
@pytest.mark.parametrize("cancels", [0.0, 0.3], ids=["", "cancels"])
@pytest.mark.parametrize("victims", [("server",), ("server", "runner", "both")], ids=["server", "all"])
def test_fifty_kills_while_five_hundred_workloads_run(
    tmp_path: Path, victims: tuple[str, ...], cancels: float
) -> None:
    run = Run(
        50, kills=50, workloads=500, longest=180, shortest=60, victims=victims, pause=4.0, cancels=cancels
    )
    carry_out(tmp_path, run)


@pytest.mark.soak
def test_two_hundred_and_seventy_kills_while_a_thousand_workloads_run(tmp_path: Path) -> None:
    victims = ("server",) * 200 + ("runner",) * 50 + ("both",) * 20
    run = Run(51, kills=270, workloads=1000, longest=600, shortest=240, victims=victims, pause=2.0)
    carry_out(tmp_path, run)
