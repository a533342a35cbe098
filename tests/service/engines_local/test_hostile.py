"""Two projects on one machine, one of them hostile: what an isolation claims is what an attack achieves.

Every aspect is tried in several ways. What a mode says it enforces must withstand all of them; what it lists
as not enforced must be seen to be open, or the list would say less than is true.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.local.isolation import ASPECTS
from tests.support.hostile import DEVICE

ROOT = Path(__file__).parents[3]
NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
with_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an ordinary user may enter, too, with a home, and a folder that is shared."""
    path = Path(tempfile.mkdtemp(prefix="steelyard-hostile-"))
    path.chmod(0o755)
    for name in ("home", "shared"):
        (path / name).mkdir()
    shutil.copy("/usr/bin/id", path / "shared/setuid")
    (path / "shared/setuid").chmod(0o4755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    """A device that everybody may open, as those of accelerators are."""
    made = False
    if os.geteuid() == 0 and not os.path.lexists(DEVICE):
        try:
            os.mknod(DEVICE, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except OSError as refused:
            pytest.skip(f"needs to make a device file: {refused}")
        os.chmod(DEVICE, 0o666)
        made = True
    yield
    if made:
        os.unlink(DEVICE)


def attack(folder: Path, mode: str, network: str = "host", user: int | None = None) -> dict[str, Any]:
    python = sys.executable
    if user is not None:
        python = ordinary_interpreter(folder, user)
        for name in ("", "home"):
            os.chown(folder / name, user, user)
    done = subprocess.run(
        [python, "-m", "tests.support.hostile", str(folder), mode, network],
        cwd=ROOT, env={"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)},
        user=user, group=user, extra_groups=None if user is None else [],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    if "unavailable" in found:
        pytest.skip(f"this machine can't do it: {found['unavailable']}")
    assert found["achieved"] is not None, found
    return found


def ordinary_interpreter(folder: Path, user: int) -> str:
    """An interpreter with which an ordinary user can run the engine: a virtual environment, made by hand, of
    one that it can read, with the packages of this one."""
    for python in (sys.executable, "/usr/bin/python3"):
        made = folder / f"venv-{Path(python).parent.parent.name}"
        inner = made / f"lib/python3.{sys.version_info.minor}/site-packages"
        inner.mkdir(parents=True)
        (made / "bin").mkdir()
        (made / "bin/python3").symlink_to(Path(python).resolve())
        (made / "pyvenv.cfg").write_text(f"home = {Path(python).resolve().parent}\n")
        places = [place for place in sys.path if place.endswith("site-packages")]
        (inner / "tests.pth").write_text("\n".join([str(ROOT / "src"), *places]) + "\n")
        with suppress(PermissionError, subprocess.CalledProcessError):
            subprocess.run(
                [made / "bin/python3", "-I", "-c", "import steelyard.engines.local.engine"], cwd="/", env={},
                user=user, group=user, extra_groups=[], capture_output=True, check=True,
            )  # fmt: skip
            return str(made / "bin/python3")
    pytest.skip("needs an interpreter and packages that an ordinary user can read")


def check(found: dict[str, Any], mode: str, open_aspects: set[str]) -> None:
    assert found["mode"] == mode
    assert set(found["achieved"]) == open_aspects, found["achieved"]
    assert set(found["isolation"]) == open_aspects
    assert set(found["claimed"]) == set(ASPECTS) - open_aspects
    assert found["exit"] == [0, 0]
    assert found["wrong"] == []


@as_root
@pytest.mark.requirement("I12")
def test_without_isolation_everything_is_open_and_said_to_be(folder: Path) -> None:
    found = attack(folder, "none")
    check(found, "none", set(ASPECTS))
    for aspect, tried in found["tried"].items():  # every try works where nothing is in its way
        failed = [what for what in tried if what not in found["achieved"][aspect]]
        # the supervisors' own working folder and output are not the victim's
        assert len(failed) == sum(what.startswith(("cwd of", "output of")) for what in failed), failed


@as_root
@pytest.mark.requirement("I12")
@pytest.mark.requirement("A5")
def test_with_user_ids_only_the_network_is_open(folder: Path) -> None:
    check(attack(folder, "user-id"), "user-id", {"network"})


@as_root
@pytest.mark.requirement("I12")
def test_with_user_ids_and_a_private_network_nothing_is_open(folder: Path) -> None:
    check(attack(folder, "user-id", "private"), "user-id", set())


@as_root
@with_bwrap
def test_in_a_sandbox_of_root_only_the_network_is_open(folder: Path) -> None:
    check(attack(folder, "bubblewrap"), "bubblewrap", {"network"})


@as_root
@with_bwrap
@pytest.mark.requirement("I12")
def test_in_a_sandbox_of_an_ordinary_user_only_the_network_is_open(folder: Path) -> None:
    check(attack(folder, "auto", user=NOBODY), "bubblewrap", {"network"})


@as_root
@with_bwrap
def test_in_a_sandbox_with_a_private_network_of_an_ordinary_user_nothing_is_open(folder: Path) -> None:
    check(attack(folder, "bubblewrap", "private", user=NOBODY), "bubblewrap", set())
