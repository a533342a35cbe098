"""Which step failed on the way to a family: card, driver, library, permission, tool, runtime, container."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.devices.catalogue import load_catalogue
from steelyard.devices.prober import Prober
from steelyard.devices.settings import settings_of
from steelyard.devices.step import StepName
from steelyard.devices.steps import steps_of
from steelyard.locale import text
from tests.support.stand_in import StandIn, stand_in

Change = Callable[[StandIn], None]


def steps(machine: StandIn, family: str) -> dict[StepName, bool | None]:
    settings, catalogue = settings_of(machine.settings(timeLimit="60s")), load_catalogue()
    prober = Prober(settings, catalogue, lambda: 7)
    found = steps_of(prober.look(wait=60), prober.asker, catalogue, settings)
    prober.close()
    for step in found:  # each has its sentence in both languages
        said = {True: "ok", False: "failed", None: "unknown"}[step.ok]
        params = {**step.params, "family": "f", "cluster": "c"}
        for lang in ("en", "zh"):
            sentence = text(f"doctor.device-{step.name}-{said}", params, lang)
            assert sentence.startswith(("f (simulated) on c", "c 上的 f（模拟）")), sentence
            assert "—" not in sentence
    return {step.name: step.ok for step in found if step.family == family}


def first_failed(found: dict[StepName, bool | None]) -> StepName | None:
    return next((name for name, ok in found.items() if ok is False), None)


def test_where_everything_is_there_no_step_failed() -> None:
    with stand_in(gpus=1) as machine:
        found = steps(machine, "nvidia")
        assert list(found) == list(StepName)
        assert first_failed(found) is None
        assert found[StepName.TOOL] is True


def test_families_that_are_not_there_are_not_spoken_of() -> None:
    with stand_in(gpus=1) as machine:
        assert steps(machine, "ascend") == {}


def say(words: str) -> Change:
    return lambda machine: machine.before("nvidia-smi", f"echo '{words}'; exit 9")


def no_driver(machine: StandIn) -> None:
    (machine.system / f"sys/bus/pci/devices/{machine.gpus[0].pci}/driver").unlink()
    say("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")(machine)


def lost(machine: StandIn) -> None:
    gone = machine.gpus.pop()
    machine.show()
    assert gone


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lost, StepName.CARD),
        (no_driver, StepName.DRIVER),
        (say("libnvidia-ml.so.1: cannot open shared object file"), StepName.LIBRARY),
        (say("Failed to initialize NVML: Insufficient Permissions"), StepName.PERMISSION),
        (say("rubbish"), StepName.TOOL),
        (lambda machine: machine.remove_tool("nvidia-smi"), StepName.TOOL),
    ],
)
def test_the_first_step_that_failed_is_told(change: Change, step: StepName) -> None:
    with stand_in(gpus=2) as machine:
        change(machine)
        assert first_failed(steps(machine, "nvidia")) is step


def test_runtime_and_container_are_told_where_they_are_found_and_never_called_failed() -> None:
    with stand_in(gpus=1) as machine:
        nothing = steps(machine, "nvidia")
        assert (nothing[StepName.RUNTIME], nothing[StepName.CONTAINER]) == (None, None)
        files = {"usr/lib64/libcuda.so.1": "", "etc/cdi/nvidia.yaml": "kind: nvidia.com/gpu\n"}
        for path, words in files.items():
            file: Path = machine.system / path
            file.parent.mkdir(parents=True)
            file.write_text(words)
        found = steps(machine, "nvidia")
        assert (found[StepName.RUNTIME], found[StepName.CONTAINER]) == (True, True)
