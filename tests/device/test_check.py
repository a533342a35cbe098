"""The check of a machine with a GPU, tried without one: stand-ins for the driver, and no card at all."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from steelyard.devices.catalogue import visibility_env
from steelyard.model.resources import DeviceClass
from tests.device import check
from tests.device.check import HOLD_MIB, Absent, binding, look

SCRIPT = Path(check.__file__).with_name("check.sh")
Json = dict[str, Any]


@dataclass(frozen=True)
class Bound:
    """A card that a process is given."""

    uid: str
    family: str = "nvidia"
    device_class: DeviceClass = DeviceClass.GPU


@dataclass
class Holder:
    """A process that holds a card."""

    pid: int = 4711


@dataclass
class StandIn:
    """A machine with two cards, as the driver would tell of it."""

    held: bool = False
    there: bool = True
    wrong: str = ""  # what goes wrong
    cards: list[str] = field(default_factory=lambda: ["GPU-a", "GPU-b"])

    def present(self) -> bool:
        return self.there

    def _card(self, uuid: str) -> Json:
        number = self.cards.index(uuid)
        pids = [4711] if self.held and number == 0 and self.wrong != "own-numbers" else []
        return {"uuid": uuid, "name": "H200", "pci": f"00000000:{number + 16:02x}:00.0", "memory": 143771,
                "used": 500 + (HOLD_MIB + 100 if self.held and number == 0 else 0), "pids": pids}  # fmt: skip

    def tool(self) -> list[Json]:
        if self.wrong == "no-tool":
            raise FileNotFoundError("nvidia-smi")
        found = [{**self._card(uuid), "driver": "570.1"} for uuid in self.cards]
        return found[:1] if self.wrong == "tool-misses-one" else found

    def tool_pids(self, uuid: str) -> list[int]:
        return list(self._card(uuid)["pids"])

    def library(self) -> tuple[str, list[Json]]:
        return "570.1", [self._card(uuid) for uuid in self.cards]

    def visible(self, variables: dict[str, str]) -> list[str]:
        if self.wrong == "no-cuda":
            raise Absent("libcuda.so.1")
        wanted = variables["CUDA_VISIBLE_DEVICES"]
        if self.wrong == "unbound":
            return self.cards
        return [wanted] if wanted in self.cards else []

    def holder(self, variables: dict[str, str]) -> Holder:
        self.visible(variables)
        self.held = self.wrong != "unseen"
        return Holder()

    def end(self, holder: Holder) -> None:
        self.held = self.wrong == "kept"

    def files(self, pid: int) -> list[str]:
        return ["/dev/nvidia0"] if self.held else []

    def product(self) -> list[Json] | None:
        return None if self.wrong == "no-packages" else [self._card(uuid) for uuid in self.cards]

    def sleep(self, seconds: float) -> None:
        """Time does not pass here."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "WAIT", 0.0)


def statuses(result: Json) -> dict[str, str]:
    return {found["id"].removeprefix("device."): found["status"] for found in result["checks"]}


GOOD = dict.fromkeys(
    ("nvml-agrees", "binding", "holder-seen", "holder-named", "released", "product-agrees"), "pass"
)


@pytest.mark.parametrize(
    ("wrong", "differs", "status"),
    [
        ("", {}, "pass"),
        ("tool-misses-one", {"nvml-agrees": "fail"}, "fail"),
        ("unbound", {"binding": "fail"}, "fail"),
        ("unseen", {"holder-seen": "fail", "holder-named": "pending"}, "fail"),
        ("kept", {"released": "fail"}, "fail"),
        ("own-numbers", {"holder-named": "pending"}, "pass"),
        ("no-packages", {"product-agrees": "pending"}, "pass"),
    ],
)
def test_each_fault_shows_in_its_own_check(wrong: str, differs: dict[str, str], status: str) -> None:
    result = look(StandIn(wrong=wrong))
    assert (statuses(result), result["status"]) == (GOOD | differs, status)


@pytest.mark.parametrize("wrong", ["no-tool", "no-cuda"])
def test_what_is_not_installed_is_pending_and_never_passed(wrong: str) -> None:
    result = look(StandIn(wrong=wrong))
    assert (result["status"], result["reason"]) == ("pending", "driver-or-framework-unconfirmed")


@pytest.mark.requirement("O1", "O13")
def test_without_a_card_it_is_pending_because_hardware_is_absent() -> None:
    result = look(StandIn(there=False))
    assert (result["status"], result["reason"]) == ("pending", "hardware-absent")


def test_the_binding_is_the_one_that_the_product_s_catalogue_makes() -> None:
    ours, theirs = binding("GPU-a"), visibility_env([Bound("GPU-a")])
    assert ours == {key: theirs[key] for key in ours}
    assert set(ours) == {key for key in theirs if key.startswith("CUDA_")}
    assert binding(None)["CUDA_VISIBLE_DEVICES"] == visibility_env([])["CUDA_VISIBLE_DEVICES"]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has an NVIDIA GPU")
def test_a_tool_without_a_card_proves_no_hardware_and_the_script_ends_with_six(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho GPU-a, H200, 00000000:10:00.0, 143771, 570.1\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "OUT": str(tmp_path / "out")}
    done = subprocess.run([str(SCRIPT)], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 6, done.stderr
    result = json.loads((tmp_path / "out/device-check.json").read_text())
    assert (result["status"], result["reason"]) == ("pending", "hardware-absent")
    assert json.loads(done.stdout) == result
