"""The ground truth of a simulated cluster: its own state file, read as the lines of JSON that it is.

It holds what was declared and what was asked of the cluster, in order; what a candidate's inventory makes of
that is not in it.
"""

from __future__ import annotations

import json
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from steelyard.model.units import parse_quantity
from steelyard.poc.observers.observed import Found, Held, Seen

Json = dict[str, Any]


class SimulationProbe:
    """One simulated cluster."""

    name = "simulation"

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)

    def look(self, device_class: str) -> Seen:
        """The devices of a class that are there now, those that the declared faults took away left out."""
        now = time.time_ns() // 1000
        try:
            spec, since = self._declared()
        except (OSError, ValueError) as error:
            return Seen(observer=self.name, source=str(self._path), at=now, why=str(error)[:200])
        found = [one for one in _expand(spec) if one.device_class == device_class]
        gone = [s for s in spec.get("suffer", ()) if s["fault"] == "device-vanishes" and not s.get("after")]
        there = tuple(_with_holders(one, spec) for one in found if not _taken(one, gone))
        return Seen(observer=self.name, source=f"{self._path} since {since}", at=now, devices=there)

    def task(self, mark: str) -> Held:
        """Whether a task of this name was started and not ended, and which devices it claims."""
        try:
            records = self._records()
        except (OSError, ValueError) as error:
            return Held(observer=self.name, alive=None, why=str(error)[:200])
        claims: dict[str, list[tuple[str, int | None]]] = {}
        for record in records:
            kind = record["type"]
            if kind == "start" and record["name"] == mark:
                members = record["members"]
                claims[record["attempt_id"]] = [(u, q) for m in members for u, q in m["claims"]]
            elif kind in ("stop", "forget"):
                for attempt in record["attempts"]:
                    claims.pop(attempt, None)
        held = tuple(claim for of_attempt in claims.values() for claim in of_attempt)
        return Held(observer=self.name, alive=bool(claims), devices=held)

    def _records(self) -> list[Json]:
        if self._path is None:
            raise OSError("not connected")
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]  # the last line may be under way
        return [json.loads(line) for line in whole.splitlines()]

    def _declared(self) -> tuple[Json, int]:
        newest = [record for record in self._records() if record["type"] == "declared"][-1:]
        if not newest:
            raise ValueError("nothing is declared")
        spec: Json = json.loads(newest[0]["spec"])
        return spec, int(newest[0]["at"])


def _expand(spec: Json) -> list[Found]:
    """Every device of a declared simulation, named NODE/CLASS-NUMBER, NODE/cpu and NODE/memory."""
    found = []
    for group in spec["nodes"]:
        for number in range(group.get("count", 1)):
            node = f"{group['prefix']}-{number}"
            for name, usual in (("cpu", "8"), ("memory", "32Gi")):
                amount = parse_quantity(name, group.get(name, usual))
                found.append(Found(names=(f"{node}/{name}",), device_class=name, node=node, capacity=amount))
            numbers: dict[str, int] = {}
            for like in group.get("devices", ()):
                for _ in range(like.get("count", 1)):
                    at = numbers.get(like["class"], 0)
                    numbers[like["class"]] = at + 1
                    name = f"{node}/{like['class']}-{at}"
                    found.append(Found(names=(name,), device_class=like["class"], node=node, capacity=1000))
    return found


def _taken(one: Found, gone: list[Json]) -> bool:
    return any(
        fnmatchcase(one.names[0], fault.get("match", {}).get("device", "*"))
        and fnmatchcase(one.node or "", fault.get("match", {}).get("node", "*"))
        for fault in gone
    )


def _with_holders(one: Found, spec: Json) -> Found:
    on = [thing for thing in spec.get("foreign", ()) if one.names[0] in thing.get("devices", ())]
    pids = tuple(int(thing["id"]) if str(thing["id"]).isdigit() else -1 for thing in on)
    return Found(
        names=one.names, device_class=one.device_class, node=one.node, capacity=one.capacity, holders=pids
    )
