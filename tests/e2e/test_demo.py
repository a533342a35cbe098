"""The whole acceptance story: a server of its own, real processes, the exported bundle, the report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(240)


class Told:
    """One run of `steelyard demo`, shared by the tests of this file."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        command = [sys.executable, "-m", "steelyard.cli.main", "demo", "--out", str(self.out)]
        began = time.monotonic()
        environment = {**os.environ, "STEELYARD_LANG": "en", "COLUMNS": "200"}
        self.done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        self.seconds = time.monotonic() - began
        self.report: dict[str, Any] = json.loads((self.out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory.mktemp("demo"))


@pytest.mark.requirement("M1", "M9", "M10", "A11", "A12")
def test_every_expectation_is_met_and_the_exit_status_says_so(told: Told) -> None:
    unmet = {result["id"]: result["seen"] for result in told.report["results"] if not result["ok"]}
    assert unmet == {}, told.done.stdout
    assert told.done.returncode == 0
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
