"""The whole acceptance story: a server of its own, real processes, the exported bundle, the report."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True)
class Told:
    """One run of `steelyard demo`, shared by the tests of this file whichever worker has them."""

    out: Path
    status: int
    output: str
    seconds: float

    @property
    def report(self) -> dict[str, Any]:
        """What the report was made of."""
        found: dict[str, Any] = json.loads((self.out / "report.json").read_text(encoding="utf-8"))
        return found


def tell(folder: Path) -> Told:
    """Runs the story, as a person would."""
    out = folder / "out"
    command = [sys.executable, "-m", "steelyard.cli.main", "demo", "--out", str(out)]
    environment = {**os.environ, "STEELYARD_LANG": "en", "COLUMNS": "200"}
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    return Told(out, done.returncode, done.stdout + done.stderr, time.monotonic() - began)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "told-story"
    folder.mkdir(mode=0o700, exist_ok=True)
    result = folder / "result.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first worker tells it, the others wait for its end
        if not result.is_file():
            result.write_text(json.dumps(asdict(tell(folder)), default=str), encoding="utf-8")
    value = json.loads(result.read_text(encoding="utf-8"))
    return Told(**{**value, "out": Path(value["out"])})


@pytest.mark.requirement("A6", "A11", "A12", "B10", "B13", "D3", "E7", "F4", "G9")
@pytest.mark.requirement("G1", "H4", "J2", "L8", "M1", "M4", "M5", "M9", "M10", "M13")
def test_every_expectation_is_met_and_the_exit_status_says_so(told: Told) -> None:
    unmet = {result["id"]: result["seen"] for result in told.report["results"] if not result["ok"]}
    assert unmet == {}, told.output
    assert told.status == 0
    assert len(told.report["results"]) >= 30


def test_it_takes_less_than_two_minutes(told: Told) -> None:
    assert told.seconds < 120


def test_nothing_of_it_is_left_running(told: Told) -> None:
    data = str(told.out / "data")
    left = [
        p.info["cmdline"]
        for p in psutil.process_iter(["cmdline"])
        if data in " ".join(p.info["cmdline"] or ())
    ]
    assert left == []


@pytest.mark.requirement("K4", "K7")
def test_a_copy_of_the_bundle_verifies_elsewhere_without_the_package(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(told.out / "bundle", copy)
    answer = verify(copy)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "self-attested" in answer.stdout
    assert "key not known" in answer.stdout


@pytest.mark.requirement("K7")
def test_a_flipped_bit_in_any_file_is_found_and_named(told: Told, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(told.out / "bundle", copy)
    outside = tmp_path / "verify.py"
    shutil.copy(copy / "verify" / "verify.py", outside)
    for path in sorted(path for path in copy.rglob("*") if path.is_file()):
        kept = path.read_bytes()
        if not kept:
            continue
        path.write_bytes(bytes([kept[0] ^ 1]) + kept[1:])
        answer = verify(copy, outside)
        path.write_bytes(kept)
        assert answer.returncode == 1, path
        assert str(path.relative_to(copy)) in answer.stdout, answer.stdout


def verify(folder: Path, verifier: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-I",
        str(verifier or folder / "verify" / "verify.py"),
        str(folder),
        "--lang",
        "en",
    ]
    return subprocess.run(command, capture_output=True, text=True, env={}, timeout=60, check=False)


def test_the_report_is_one_file_that_fetches_nothing(told: Told) -> None:
    page = (told.out / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://127.0.0.1", "")
    assert "https://" not in page
    assert told.report["checkpoint"]["short_code"] in page
