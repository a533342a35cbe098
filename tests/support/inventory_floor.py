"""A day and a half of a machine room on a virtual clock, and its console behind a real address.

Yesterday before noon a card fell ill and another was cordoned; by now the first is well again, others are
not. Everything is simulated, and marked so.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource
from steelyard.model.resources import Fact, FoundDevice, FoundNode, Provenance
from steelyard.services.flags import Act
from steelyard.store.database import sqlite_url
from tests.support.console import Pages
from tests.support.console_floor import GPU
from tests.support.house import DOCUMENTS, START, House
from tests.support.shown import Changed, Shown, gone, held_by, ill, look, shown

MINUTE = 60_000_000
HOUR = 60 * MINUTE
BESIDE = """
kind: LabelVocabulary
metadata: {name: default}
spec:
  metadata: open
  keys:
    - {key: zone, values: [a, b], meaning: {en: part of the site, zh: 园区分区}, setBy: [platform]}
    - {key: framework, meaning: {en: framework, zh: 框架}, setBy: [engineering]}
    - {key: driver, lowLevel: true, meaning: {en: driver family, zh: 驱动系列}, setBy: [engineering, engine]}
---
kind: Pool
metadata: {name: accelerators}
spec:
  cluster: sim
  purpose: training
  about: the first room
  owner: platform
  onCall: gpu duty
  members: {nodes: [n-0, n-1]}
  environment: {framework: pytorch}
  admission: {kinds: [training, evaluation, batch], maxPerRequest: {gpu: 8}}
  operations: [{class: cpu, owner: systems, onCall: day shift}]
  flavors: [{name: a100, class: gpu}, {name: sim-cpu, class: cpu}, {name: sim-memory, class: memory}]
---
kind: SupportDocument
metadata: {name: vendor-matrix}
spec:
  issuer: a vendor
  date: "2026-08"
  about: which frameworks run on which cards
  scope: {class: gpu, family: nvidia, models: [A100]}
  link: https://vendor.example/matrix
  linkCheck: {state: reachable, status: 200, checked: "2026-09-01"}
---
kind: Extension
metadata: {name: card-plugin}
spec: {type: device-plugin, version: "1.2", cluster: sim, family: nvidia, owner: platform}
---
kind: ObservationSource
metadata: {name: card-exporter}
spec: {type: exporter, measures: [temperature, power], interval: 15s, cluster: sim, owner: platform,
  blind: while the host restarts}
---
kind: RegisterEntry
metadata: {name: detector-pretrain}
spec: {kind: training, requests: {gpu: 4}, models: [A100], owner: vision, period: next quarter,
  acceptedBy: loss below 2 after a day, boundaries: one node}
---
kind: RegisterEntry
metadata: {name: translator-plan}
spec: {kind: inference, requests: {npu: 2}}
"""


class InventoryFloor:
    """The house, its pages at `url`, and ids by name."""

    def __init__(self, folder: Path) -> None:
        self.house = House(sqlite_url(folder), folder, DOCUMENTS, wrap=Shown)
        self.pages = Pages(self.house)
        self.ids: dict[str, str] = {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        config = uvicorn.Config(
            self.pages.app, host="127.0.0.1", port=self.port, log_level="error", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def secret(self) -> str:
        """The administrator's session."""
        return self.pages.secrets["root"]

    def fill(self) -> InventoryFloor:
        """The day and a half."""
        self.house.apply(BESIDE)
        self._describe()
        self._submit("detector", requests={**GPU, "gpu": 2})
        self._submit("translator", namespace="translate-dev")
        self._pass(2 * HOUR)
        broken = ill(Health.UNHEALTHY, SignCode.ECC_UNCORRECTED, "12 volatile uncorrected")
        shown(self.house).devices["n-1/gpu-3"] = _both(_numbered(1, 3, "550.54"), broken)
        self._look()
        self._act(Act.CORDON, "n-1/gpu-2", "fan is loud")
        self._pass(2 * HOUR)  # noon
        self._pass(20 * MINUTE)
        shown(self.house).devices["n-1/gpu-3"] = _numbered(1, 3, "560.28")
        self._look()
        self._act(Act.UNCORDON, "n-1/gpu-2", "new fan")
        self._pass(24 * HOUR)
        self._today()
        self._beside()
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self._ids()
        return self

    def _describe(self) -> None:
        """The several numbers of the cards, and a driver."""
        cluster = shown(self.house)
        for node in range(2):
            for card in range(4):
                cluster.devices[f"n-{node}/gpu-{card}"] = _numbered(node, card, "550.54")
        self._look()

    def _today(self) -> None:
        devices = shown(self.house).devices
        stranger = held_by(DeviceHolder(4711, "python", memory=20_480))
        devices["n-1/gpu-0"] = _both(_numbered(1, 0, "550.54"), stranger)
        devices["n-1/gpu-1"] = gone
        devices["n-0/gpu-3"] = _both(_numbered(0, 3, "550.54"), _sick)
        shown(self.house).nodes["n-0"] = _labelled
        self._look()
        self._act(Act.MAINTENANCE, "n-1/gpu-2", "firmware update, ticket 17")
        self._look()

    def _beside(self) -> None:
        """A pool that is shut, and a type that is on its way in."""
        self._root("/v1/pools/cores/close", {"reason": "moving racks"})
        wanted = {"class": "npu", "family": "ascend", "model": "Ascend-910B", "reason": "the second room"}
        begun = str(self._root("/v1/admissions", {**wanted})["id"])
        self._root(f"/v1/admissions/{begun}/steps/labels", {"labels": ["zone", "framework"]})
        self._root(f"/v1/admissions/{begun}/steps/monitoring", {"source": "card-exporter"})
        self.ids["admission"] = begun
        self.house.tick(3)

    def _submit(self, name: str, **fields: Any) -> None:
        self.ids[name] = self.house.submit(name, expect={"run": "forever"}, **{"requests": GPU, **fields})
        self.house.run_until(lambda: self.house.phase(self.ids[name]) == "running")

    def _pass(self, span: int) -> None:
        """Time goes by; before and after its end somebody looks."""
        self.house.clock.advance(span - MINUTE)
        for _ in range(4):
            self.house.clock.advance(MINUTE // 3)
            self._look()

    def _look(self) -> None:
        look(self.house)

    def _act(self, what: Act, uid: str, reason: str) -> None:
        self._root("/v1/flags", {"on": f"sim/{uid}", "act": what.value, "reason": reason})
        self.house.tick(2)

    def _root(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Something that the administrator does."""
        headers = {"Authorization": f"Bearer {self.secret}", "Accept": "*/*"}
        answer = self.pages.as_("root").client.post(path, json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def _ids(self) -> None:
        """Of nodes by name, and of devices by UID."""
        headers = {"Authorization": f"Bearer {self.secret}", "Accept": "*/*"}
        nodes = self.pages.as_("root").client.get("/v1/inventory", headers=headers).json()["items"]
        for node in nodes:
            self.ids[node["name"]] = node["id"]
            self.ids |= {device["uid"]: device["id"] for device in node["devices"]}

    def close(self) -> None:
        """End the server and let go."""
        if self._thread.is_alive():
            self._server.should_exit = True
            self._thread.join(30)
        shown(self.house).devices.clear()
        shown(self.house).nodes.clear()
        self.pages.close()


def _numbered(node: int, card: int, driver: str) -> Changed:
    """A card with its numbers."""
    numbers: dict[str, str | int] = {
        "uuid": f"GPU-0000000{node}-{card}", "serial": f"13{node}0{card}7",
        "pci": f"0000:{card + 16:02x}:00.0",
        "index": card, "host_index": card, "driver": driver,
    }  # fmt: skip

    def changed(device: FoundDevice) -> FoundDevice:
        facts = {
            key: Fact(value, Provenance.SIMULATED, "cluster-document", START)
            for key, value in numbers.items()
        }
        return replace(device, facts={**device.facts, **facts})

    return changed


def _both(first: Changed, second: Changed) -> Changed:
    def changed(device: FoundDevice) -> FoundDevice | None:
        made = first(device)
        return None if made is None else second(made)

    return changed


def _sick(device: FoundDevice) -> FoundDevice:
    """It is warm, and its link is slow."""
    signs = (
        Sign(SignCode.OVERHEATED, Health.DEGRADED, SignSource.TEMPERATURE, "86 C for 3 looks"),
        Sign(SignCode.LINK_DEGRADED, Health.DEGRADED, SignSource.LINK, "8 of 16 lanes"),
    )
    return replace(device, health=Health.DEGRADED, signs=signs)


def _labelled(node: FoundNode) -> FoundNode:
    return replace(node, labels={**node.labels, "zone": "a", "vendor.example/driver-major": "550"})
