"""Made-up answers in the API's shapes, as the acceptance story collects them; the sums in them are true."""

# ruff: noqa: E501 (rows of tables are read across)

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from steelyard.demo.expect import Result, Said
from steelyard.demo.report.facts import Facts

Json = dict[str, Any]
T0 = 1_780_000_000_000_000
S = 1_000_000
END = T0 + 50 * S
STAGES = ("submitted", "eligible", "reserved", "placed", "started", "ready", "stopping", "ended")
NOBODY = "<script>alert(1)</script>"


def device(uid: str, device_class: str, capacity: int, simulated: bool, held: int = 0, who: str = "") -> Json:
    """A device; `who` is `project/workload`."""
    project, _, name = who.partition("/")
    holders = [{"workload": "wl_1", "name": name, "project": project, "quantity": held, "since": T0}]
    return {
        "id": f"dv_{uid}", "uid": uid, "class": device_class, "family": "x86", "model": "m", "capacity": capacity,
        "held": held, "free": capacity - held, "reserved": 0, "unavailable": 0, "unknown": 0,
        "state": "held" if held == capacity else "available", "reason": None, "pool": "p", "flavor": "f",
        "provenance": "simulated" if simulated else "detected", "simulated": simulated,
        "holders": holders if held else [],
    }  # fmt: skip


def nodes() -> list[Json]:
    """This machine, two GPU nodes and an NPU node."""
    made = [
        ("host", "this-machine", False, [device("cpu", "cpu", 2000, False, 300, "vision/train-spiral"),
                                         device("mem", "memory", 24105, False, 256, "vision/train-spiral")]),
        ("sim-gpu-0", "sim-accel", True, [
            *(device(f"g0{i}", "gpu", 1000, True, 1000, "vision/pretrain") for i in range(4)),
            device("c0", "cpu", 32000, True, 16000, "vision/pretrain")]),
        ("sim-gpu-1", "sim-accel", True, [
            *(device(f"g1{i}", "gpu", 1000, True, 1000 * (i < 2), "vision/pretrain") for i in range(4)),
            device("c1", "cpu", 32000, True, 8000, "vision/pretrain")]),
        ("sim-npu-0", "sim-accel", True, [
            *(device(f"n{i}", "npu", 1000, True, 1000 * (i < 2), "language/notebook") for i in range(4)),
            device("c2", "cpu", 24000, True, 2000, "language/notebook")]),
    ]  # fmt: skip
    made[3][3][3] |= {"state": "unavailable", "reason": "unhealthy", "free": 0, "unavailable": 1000}
    return [
        {
            "id": f"nd_{name}", "name": name, "cluster": cluster, "simulated": simulated,
            "availability": "available", "reason": None, "labels": {}, "pools": ["local"], "devices": devices,
            "observed_at": T0 + S,
        }
        for name, cluster, simulated, devices in made
    ]  # fmt: skip


def summary() -> Json:
    """The sums of `nodes()`."""
    parts = ("capacity", "held", "free", "reserved", "unavailable", "unknown")
    sums: dict[tuple[str, str, bool], Json] = defaultdict(lambda: dict.fromkeys(parts, 0))
    for node in nodes():
        for item in node["devices"]:
            for part in parts:
                sums[item["class"], node["cluster"], node["simulated"]][part] += item[part]
    return {
        "as_of": T0 + 9 * S,
        "clusters": [
            {"name": "sim-accel", "engine": "simulated", "simulated": True, "reachable": True, "observed_at": T0},
            {"name": "this-machine", "engine": "local", "simulated": False, "reachable": None, "observed_at": None},
        ],
        "classes": [
            {"class": c, "cluster": cluster, "simulated": simulated, **total}
            for (c, cluster, simulated), total in sorted(sums.items())
        ],
    }  # fmt: skip


def attempt(number: int, cluster: str | None, marks: tuple[int, ...], outcome: str, **more: Any) -> Json:
    """`marks`: seconds of submit, placement, start, end and receipt; only two where it was never placed."""
    at = [T0 + mark * S for mark in marks]
    placed = len(at) > 2
    times = dict.fromkeys((*STAGES, "release_confirmed"))
    times |= {"submitted": at[0], "eligible": at[0], "release_confirmed": at[-1]}
    tiles = []
    if placed:
        times |= {"placed": at[1], "started": at[2], "ended": at[3]}
        tiles = [
            {"state": state, "t0": a, "t1": b}
            for state, a, b in zip(("starting", "running", "releasing"), at[1:], at[2:], strict=False)
        ]
    receipt = {
        "state": "confirmed", "confirmed_at": at[-1], "residue": [],
        "signals": {"control": "ended", "ledger": "closed", "probe": "free"},
        "checks": [["process-group", "gone"], ["work-folder", "clear"]],
    }  # fmt: skip
    return {
        "id": f"at_{number}{at[0]}", "number": number, "phase": "finished", "sub_stage": None, "outcome": outcome,
        "cluster": cluster, "simulated": cluster == "sim-accel", "times": times, "tiles": tiles,
        "waits": [{"reason": "capacity", "t0": at[0], "t1": at[1]}] if at[1] > at[0] else [],
        "members": [{"id": "mb_1", "role": "worker", "index": 0, "phase": "ended", "node": "host", "exit_code": 0,
                     "exit_signal": None, "endpoint": None, "devices": []}],
        "receipt": receipt if placed else None, "verdict": None, **more,
    }  # fmt: skip


def verdict(stage: str, group: str, code: str) -> Json:
    """Why an attempt failed."""
    return {
        "stage": stage, "code": code, "group": group, "responsible": "submitter", "action": "look-at-log",
        "evidence": [{"kind": "counter", "field": "exit_code", "value": 3, "member": "mb_1"}],
        "confidence": "high",
        "params": {"exit": 3},
    }  # fmt: skip


def view(name: str, project: str, kind: str, attempts: list[Json], **more: Any) -> Json:
    """A workload's page."""
    last = attempts[-1]
    return {
        "id": f"wl_{name}", "name": name, "namespace": f"{project}-ns", "project": project, "team": "t",
        "kind": kind, "queue": "main", "priority": 500, "phase": "finished", "outcome": last["outcome"],
        "attempt": last["number"], "submitted_at": attempts[0]["times"]["submitted"],
        "finished_at": last["times"]["release_confirmed"], "cluster": last["cluster"],
        "simulated": last["simulated"], "attempts": attempts, "evictions": [], "verdict": last["verdict"], **more,
    }  # fmt: skip


def workloads() -> list[Json]:
    """A few of each kind."""
    local, sim = "this-machine", "sim-accel"
    long = [
        attempt(1, local, (16, 16, 17, 20, 21), "preempted"),
        attempt(2, local, (20, 24, 25, 33, 34), "succeeded"),
    ]
    eviction = {
        "attempt": long[0]["id"], "preemptor": "wl_urgent", "preemptor_name": "urgent-batch", "policy_version": 3,
        "rule": "within-queue", "quantity": {"cpu": 500}, "lost_time": 400_000, "at": T0 + 19 * S,
    }  # fmt: skip
    exit3 = verdict("application", "business", "exit-code")
    image = verdict("image", "environment", "image-not-found")
    return [
        view("train-spiral", "vision", "training", [attempt(1, local, (2, 2, 3, 9, 10), "succeeded")]),
        view("pretrain", "vision", "training", [attempt(1, sim, (4, 4, 5, 17, 18), "succeeded")]),
        view("finetune", "language", "training", [attempt(1, sim, (5, 18, 19, 33, 34), "succeeded")]),
        view("notebook", "language", "experiment", [attempt(1, sim, (5, 5, 6, 12, 13), "cancelled")]),
        view("serve-spiral", "vision", "inference", [attempt(1, local, (11, 11, 12, 44, 45), "cancelled")]),
        view("train-long", "language", "training", long, evictions=[eviction]),
        view("urgent-batch", "vision", "batch", [attempt(1, local, (19, 21, 22, 24, 25), "succeeded")]),
        view("broken-application", "language", "batch", [attempt(1, local, (8, 8, 9, 9, 10), "failed", verdict=exit3)]),
        view("broken-image", "language", "experiment", [attempt(1, sim, (8, 8, 8, 9, 10), "failed", verdict=image)]),
        view(NOBODY, "vision", "batch", [attempt(1, None, (8, 9), "withdrawn")]),
    ]  # fmt: skip


def reason(**more: Any) -> Json:
    """A reason with everything in it."""
    made: Json = {
        "code": "waiting-for-capacity", "stage": "placement", "scope": None, "owner": None, "resource": "gpu",
        "flavor": "sim-a100", "limit": None, "used": None, "requested": 4000, "short_by": 2000,
        "holders": [{"kind": "workload", "id": "wl_pretrain", "amount": 2000, "name": "pretrain",
                     "project": "vision", "queue": "main", "since": T0 + 4 * S}],
        "wakes_on": ["workload-released"], "approximate": False, "params": {},
    }  # fmt: skip
    return made | more


def refusals() -> list[Json]:
    """One above a quota, one above everything there is."""
    numbers = {"limit": 6000, "used": 6000, "requested": 1000, "short_by": 1000, "holders": []}
    over = reason(code="over-limit", stage="quota", scope="project", owner="project/vision", **numbers)
    never = reason(
        code="exceeds-capacity",
        resource="npu",
        limit=4000,
        used=0,
        requested=16000,
        short_by=12000,
        holders=[],
    )
    return [
        {
            "id": f"rf_{name}", "at": T0 + 7 * S, "submitter": who, "project": project, "namespace": "ns",
            "name": name, "kind": "training", "asked": {}, "reasons": [why], "complete": True,
            "policy_version": 3, "review_state": "open",
        }
        for name, who, project, why in (("one-more", "lin", "vision", over), ("too-many", "mei", "language", never))
    ]  # fmt: skip


def segments() -> tuple[list[Json], list[Json]]:
    """(segments, capacity) of a GPU and of this machine's CPU; they close at every instant."""
    rows, roofs = [], []
    plans = {
        ("g00", "gpu", True, 1000): [(0, 4, None), (4, 18, "vision"), (18, 34, "language"), (34, 50, None)],
        ("cpu", "cpu", False, 2000): [(0, 2, None), (2, 10, "vision"), (10, 16, None), (16, 34, "language"), (34, 50, None)],
    }  # fmt: skip
    for (uid, name, simulated, capacity), pieces in plans.items():
        base = {"resource": f"dv_{uid}", "class": name, "dimension": "device", "simulated": simulated}
        roofs.append({**base, "capacity": capacity, "t0": T0, "t1": END})
        for start, end, project in pieces:
            span = {"t0": T0 + start * S, "t1": T0 + end * S}
            part = capacity // 2 if project and name == "cpu" else capacity if project else 0
            if part:
                rows.append(
                    {
                        **base,
                        **span,
                        "kind": "holding",
                        "quantity": part,
                        "project": project,
                        "state": "running",
                    }
                )
            if capacity > part:
                state = "idle.reserved" if project else "idle.schedulable"
                rows.append({**base, **span, "kind": "idle", "quantity": capacity - part, "state": state})
    return rows, roofs


def usage() -> Json:
    """The usage of `segments()`, by project, kind and class."""
    rows, roofs = segments()
    held: dict[tuple[str, str, bool], int] = defaultdict(int)
    unheld: dict[tuple[str, bool, str], int] = defaultdict(int)
    for row in rows:
        amount = row["quantity"] * (row["t1"] - row["t0"])
        if row["kind"] == "holding":
            held[row["project"], row["class"], row["simulated"]] += amount
        else:
            unheld[row["class"], row["simulated"], row["state"]] += amount
    return {
        "from": T0, "to": END,
        "rows": [
            {"project": project, "kind": "training", "class": name, "simulated": simulated, "held": str(amount),
             "by_state": {"starting": "0", "running": str(amount), "stopping": "0", "releasing": "0"}}
            for (project, name, simulated), amount in held.items()
        ],
        "unheld": [
            {"class": name, "simulated": simulated, "state": state, "quantity_time": str(amount)}
            for (name, simulated, state), amount in unheld.items()
        ],
        "capacity": [
            {"class": r["class"], "simulated": r["simulated"], "capacity_time": str(r["capacity"] * (END - T0))}
            for r in roofs
        ],
        "waits": [{"project": "language", "kind": "training", "reason": "capacity", "time": str(13 * S), "count": 1}],
        "counts": {"submitted": 12, "refused": 2, "finished": {"succeeded": 5}, "live": 0},
        "complete": True, "closes": True,
    }  # fmt: skip


def results() -> tuple[Result, ...]:
    """One met, one not."""
    seen = Said("demo.seen.waits", {
        "reason": "waiting-for-capacity", "resource": "gpu", "short_by": 2000, "held": 2000, "holders": 1, "position": 1,
    })  # fmt: skip
    return (
        Result("wait-explained", ("E4", "E5"), Said("demo.expect.wait-explained"), seen, True),
        Result(
            "all-free",
            ("G4",),
            Said("demo.expect.all-free"),
            Said("demo.seen.nothing", {"reason": NOBODY}),
            False,
        ),
    )


def facts() -> Facts:
    """Everything."""
    rows, roofs = segments()
    by_team = usage()
    by_team["rows"] = [
        {**row, "team": team, "held": str(int(row["held"]) // 2)}
        for row in by_team["rows"] if row["project"] == "language" for team in ("dialogue", "research")
    ]  # fmt: skip
    return Facts(
        began=T0, ended=END, lang="zh", results=results(), version={"version": "0.1.0", "install_id": "in_1"},
        summary=summary(), nodes=nodes(), workloads=workloads(),
        explanation={"decision": "waits", "reasons": [reason()], "position": 1}, refusals=refusals(), usage=usage(),
        usage_by_team=by_team, segments=rows, capacity=roofs,
        checks={"ok": True, "checks": [{"id": f"CK{n}", "ok": n != 9, "checked": 100 * n, "findings": []}
                                       for n in range(1, 10)]},
        checkpoint={"size": 412, "root": "a1" * 32, "note": "", "short_code": "412-ABCD-EFGH-IJKL-MNOP",
                    "key": {"name": "steelyard/in_1", "vkey": "v", "fingerprint": "0f" * 32}},
        verified={"exit": 0, "command": [], "report": {}, "text": {"en": "OK: all checks hold", "zh": "通过"}},
        silence={"cluster": "sim-accel", "t0": T0 + 26 * S, "t1": T0 + 32 * S}, moved_at=T0 + 25 * S,
    )  # fmt: skip


def partial() -> Facts:
    """A story that broke early."""
    return replace(
        Facts(T0, END, "en"), results=results(), steps=[{"id": "open", "seconds": 1, "error": "no <door>"}]
    )
