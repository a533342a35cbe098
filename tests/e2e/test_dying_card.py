"""A real server with workloads on stand-in cards that die, are split, updated, or whose tool hangs."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.server import Server, organisation, running
from tests.support.stand_in import Gpu, StandIn, stand_in

DOCUMENTS = """
kind: Pool
metadata: {name: cards}
spec:
  cluster: here
  owner: platform
  flavors:
    - {name: core, class: cpu}
    - {name: ram, class: memory}
    - {name: h100, class: gpu, family: nvidia, model: NVIDIA H100 80GB HBM3}
    - {name: ascend, class: npu, family: ascend}
---""" + organisation(cpu='"64"', memory="1Ti", gpu='"16"', npu='"16"')


SECONDS = 120.0


def cluster(machine: StandIn) -> str:
    body = {"engine": "local", "releaseWithin": "2s", "isolation": {"mode": "none"}}
    body |= {"devices": machine.settings()}
    return yaml.safe_dump({"kind": "Cluster", "metadata": {"name": "here"}, "spec": body})


@dataclass
class Story:
    """What was seen at each point of one story that is told once for all tests of this file."""

    seen: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # point → uid → device
    gpu: str = ""  # the card that `train` runs on
    lost: str = ""
    xid: str = ""
    split: str = ""
    npu: str = ""  # the one that `infer` runs on
    log: str = ""
    train: dict[str, dict[str, Any]] = field(default_factory=dict)  # point → workload
    leaves: list[Any] = field(default_factory=list)
    quarantined: list[Any] = field(default_factory=list)
    next_gpu: str = ""
    histories: dict[str, dict[str, Any]] = field(default_factory=dict)  # uid → its page at the end


class Teller:
    """Tells it: a real server, real processes, stand-in tools that change."""

    def __init__(self, server: Server, machine: StandIn) -> None:
        self.server = server
        self.machine = machine
        self.story = Story()

    def devices(self) -> dict[str, dict[str, Any]]:
        found = self.server.get("/v1/inventory")["items"]
        return {device["uid"]: device for node in found for device in node["devices"]}

    def until(self, point: str, done: Callable[[dict[str, dict[str, Any]]], bool]) -> None:
        self.server.wait_for(lambda: done(self.devices()), SECONDS)
        self.story.seen[point] = self.devices()

    def submit(self, name: str, script: str, **requests: str) -> str:
        asked = {"cpu": "1m", "memory": "8Mi", **requests}
        workload = self.server.submit(name, ["/bin/sh", "-c", script], requests=asked)
        self.server.wait_for(lambda: self.workload(workload)["phase"] == "running", SECONDS)
        return workload

    def workload(self, workload: str) -> dict[str, Any]:
        found: dict[str, Any] = self.server.get(f"/v1/workloads/{workload}")
        return found

    def card_of(self, workload: str) -> str:
        members = self.workload(workload)["attempts"][-1]["members"]
        return next(str(d["uid"]) for m in members for d in m["devices"] if d["class"] in ("gpu", "npu"))

    def log(self, workload: str) -> str:
        chunk = self.server.get(f"/v1/workloads/{workload}/logs")
        return base64.b64decode(chunk["data_base64"]).decode()

    def failing(self) -> str:
        """A program that runs until it is told to fail."""
        return f"until [ -e {self.machine.folder}/fail ]; do sleep 0.2; done; exit 1"

    def fail(self, workload: str) -> None:
        """Its first attempt fails, and its second one runs."""
        mark = self.machine.folder / "fail"
        mark.touch()
        self.server.wait_for(lambda: self.workload(workload)["attempts"][0]["verdict"], SECONDS)
        mark.unlink()

        def again() -> bool:
            seen = self.workload(workload)
            return seen["phase"] == "running" and len(seen["attempts"]) > 1

        self.server.wait_for(again, SECONDS)

    def tell(self) -> Story:
        story = self.story
        self.until("start", lambda seen: sum(d["state"] == "available" for d in seen.values()) == 9)
        train = self.submit("train", f"echo $CUDA_VISIBLE_DEVICES; {self.failing()}", gpu="1")
        infer = self.submit("infer", "exec sleep 600", npu="1")
        story.gpu, story.npu = self.card_of(train), self.card_of(infer)
        story.log = self.server.wait_for(lambda: self.log(train), SECONDS)
        self._break()
        story.train["bad"] = self.workload(train)
        self.server.kill()
        self.server.start()
        self.until("restarted", lambda seen: seen[story.gpu]["state"] == "unavailable")
        self._leave_behind(infer)
        self.fail(train)
        story.train["again"], story.next_gpu = self.workload(train), self.card_of(train)
        story.leaves = self.server.get("/v1/audit/leaves", stream=f"object/workload/{train}")["items"]
        self._mend()
        story.histories = {uid: self.server.get(f"/v1/devices/{uid}") for uid in story.seen["start"]}
        return story

    def _break(self) -> None:
        """The card under work asks for a reset, one leaves the bus, one has an Xid, one is split; the NPUs'
        tool hangs."""
        story, machine = self.story, self.machine
        held = next(one.number for one in machine.gpus if one.uuid == story.gpu)
        others = [one for one in machine.gpus if one.number != held]
        story.lost, story.xid, story.split = (one.uuid for one in others[:3])
        xid = f"NVRM: Xid (PCI:{others[1].pci[:-2]}): 48, pid=1, name=python, Ch 00000001"
        machine.before("npu-smi", "exec sleep 600")
        machine.unplug(others[0].number)
        machine.gpu(held, words="[GPU requires reset]")
        machine.gpu(others[2].number, mig="Enabled", parts=("1g.10gb", "2g.20gb"))
        machine.kernel_says(xid)
        bad = (story.gpu, story.lost, story.xid, story.split)

        def all_seen(seen: dict[str, dict[str, Any]]) -> bool:
            hanging = seen[self.story.npu]["health"] == "unknown"
            return hanging and all(seen[uid]["state"] == "unavailable" for uid in bad)

        self.until("bad", all_seen)

    def _leave_behind(self, infer: str) -> None:
        """A stranger opens the NPU's file while its workload runs, and keeps it when that ends."""
        page = self.server.get(f"/v1/devices/{self.story.npu}")
        index = next(fact["value"] for fact in page["facts"] if fact["key"] == "index")
        file = self.machine.system / f"dev/davinci{index}"
        stranger = subprocess.Popen(["/bin/sh", "-c", f"exec 3<{file}; exec sleep 600"])
        try:
            self.server.wait_for(lambda: os.path.exists(f"/proc/{stranger.pid}/fd/3"), SECONDS)
            self.server.post(f"/v1/workloads/{infer}/cancel")
            self.server.wait_for(lambda: self.server.get("/v1/releases", closed=False)["items"], SECONDS)
            self.story.seen["quarantined"] = self.devices()
            self.story.quarantined = self.server.get("/v1/releases", closed=False)["items"]
        finally:
            stranger.kill()
            stranger.wait()
        self.server.wait_for(lambda: not self.server.get("/v1/releases", closed=False)["items"], SECONDS)

    def _mend(self) -> None:
        """Everything is as it was, with another driver."""
        story, machine = self.story, self.machine
        machine.driver = "580.1"
        for one in list(machine.gpus):
            machine.gpu(one.number, words=None, mig="Disabled", parts=())
        lost = next(number for number in range(5) if Gpu(number).uuid == story.lost)
        machine.plug(Gpu(lost))
        machine.show()
        machine.before("npu-smi", None)
        wanted = story.seen["start"].keys()
        self.until(
            "mended",
            lambda seen: seen.keys() == wanted and all(d["health"] == "healthy" for d in seen.values()),
        )


def test_work_on_a_card_that_turns_bad_goes_on_and_its_next_attempt_goes_elsewhere(tmp_path: Path) -> None:
    """The short form."""
    with (
        stand_in(gpus=2) as machine,
        running(tmp_path / "data", f"{cluster(machine)}---{DOCUMENTS}") as server,
    ):
        teller = Teller(server, machine)
        teller.until("start", lambda seen: sum(d["class"] == "gpu" for d in seen.values()) == 2)
        train = teller.submit("train", teller.failing(), gpu="1")
        card = teller.card_of(train)
        machine.gpu(int(card[4:12]), words="[GPU requires reset]")
        teller.until("bad", lambda seen: seen[card]["state"] == "unavailable")
        assert teller.workload(train)["phase"] == "running"
        teller.fail(train)
        assert teller.card_of(train) != card
        assert teller.workload(train)["attempts"][0]["verdict"]["code"] == "device-unhealthy"
        bad = teller.devices()[card]
        assert (bad["reason"], codes(bad), bad["unavailable"]) == ("unhealthy", ["reset-required"], 1000)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("dying-card") / "data"
    with (
        stand_in(gpus=5, npus=2) as machine,
        running(folder, f"{cluster(machine)}---{DOCUMENTS}") as server,
    ):
        yield Teller(server, machine).tell()


def codes(device: dict[str, Any]) -> list[str]:
    return [sign["code"] for sign in device["signs"]]


# ---- what is to be seen in it (the whole story takes a minute) -------------------------------------------

soak = pytest.mark.soak


@soak
@pytest.mark.requirement("O14")
def test_stand_in_cards_are_simulated_and_the_machines_own_cpu_is_not(story: Story) -> None:
    simulated = {device["class"]: device["simulated"] for device in story.seen["start"].values()}
    assert simulated == {"cpu": False, "memory": False, "gpu": True, "npu": True}


@soak
def test_a_program_sees_the_card_it_was_given(story: Story) -> None:
    assert story.log == f"{story.gpu}\n"


@soak
@pytest.mark.requirement("B9")
def test_each_card_that_died_says_so_with_its_own_reason(story: Story) -> None:
    bad = story.seen["bad"]
    cards = (story.gpu, story.lost, story.xid, story.npu)
    told = {uid: (bad[uid]["reason"], codes(bad[uid])) for uid in cards}
    assert told == {
        story.gpu: ("unhealthy", ["reset-required"]),
        story.lost: ("missing", ["not-found"]),
        story.xid: ("unhealthy", ["xid"]),
        story.npu: ("health-unknown", ["tool-timeout"]),
    }


@soak
@pytest.mark.requirement("B23")
def test_what_vanished_and_what_is_split_takes_no_capacity_away(story: Story) -> None:
    bad = story.seen["bad"]
    assert bad[story.lost]["capacity"] == 1000
    parts = [device for device in bad.values() if device["parent"] == bad[story.split]["id"]]
    assert bad[story.split]["reason"] == "partitioned"
    assert [(part["model"], part["state"]) for part in parts] == [
        ("NVIDIA H100 80GB HBM3 1g.10gb", "available"), ("NVIDIA H100 80GB HBM3 2g.20gb", "available"),
    ]  # fmt: skip


@soak
def test_work_on_a_dying_card_goes_on_and_is_told(story: Story) -> None:
    assert story.train["bad"]["phase"] == "running"
    assert "workload.device" in [leaf["action"] for leaf in story.leaves]
    first = story.train["again"]["attempts"][0]
    assert first["verdict"]["code"] == "device-unhealthy"
    assert story.next_gpu not in (story.gpu, story.lost, story.xid, story.split)


@soak
def test_a_killed_server_starts_with_the_same_health(story: Story) -> None:
    bad, after = story.seen["bad"], story.seen["restarted"]
    assert {uid: (d["health"], codes(d)) for uid, d in bad.items()} == {
        uid: (d["health"], codes(d)) for uid, d in after.items()
    }


@soak
@pytest.mark.requirement("G8")
def test_a_device_that_a_stranger_still_has_open_is_kept_back_with_its_name(story: Story) -> None:
    (kept,) = story.quarantined
    assert story.npu in [held["uid"] for held in kept["held"]]
    assert "davinci" in " ".join(kept["seen"]["residue"])
    assert story.seen["quarantined"][story.npu]["free"] == 0


@soak
def test_what_is_mended_comes_back_as_the_same_device_and_its_driver_has_a_history(story: Story) -> None:
    start, mended = story.seen["start"], story.seen["mended"]
    assert {uid: d["id"] for uid, d in start.items()} == {uid: d["id"] for uid, d in mended.items()}
    assert {device["state"] for device in mended.values()} <= {"available", "held"}
    drivers = [fact for fact in story.histories[story.gpu]["facts"] if fact["key"] == "driver"]
    assert [(fact["value"], fact["valid_to"] is None) for fact in drivers] == [
        ("575.57.08", False), ("580.1", True),
    ]  # fmt: skip


@soak
def test_a_card_was_out_for_at_least_its_time_of_recovery_and_only_once(story: Story) -> None:
    for uid in (story.gpu, story.lost, story.xid):
        (spell,) = [one for one in story.histories[uid]["health_history"] if one["health"] != "healthy"]
        assert spell["valid_to"] - spell["valid_from"] >= 4_000_000
