"""Five questions of a management review, answered from rows alone: pure, integers, no opinion.

Each answer has a code, what it rests on as params, and the rows behind it. Where there is no row to answer
from the code is `unknown`; nothing is guessed. Real and simulated quantities are never added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from steelyard.model.units import wide_to_json

Json = dict[str, Any]
IDLE, RESERVED = "idle.", "idle.reserved"
#: Waits by what would end them: a rule, or more of something. Those that somebody chose are neither.
BY_RULES = frozenset({"quota", "priority", "policy-window", "fragmentation"})
BY_RESOURCES = frozenset({"capacity"})
BY_WILL = frozenset({"held-by-user", "standby"})
#: From this much idle on, more devices are not what is missing (thousandths of the capacity × time).
IDLE_ENOUGH = 100
QUESTIONS = ("idle", "queueing", "failures", "unattributed", "next")


def review(rows: Mapping[str, Any]) -> Json:
    """The answers to the rows of `services.review`."""
    idle = _idle(rows["idle"])
    queueing = _queueing(rows["waits"])
    answers = {
        "idle": _idle_answer(idle),
        "queueing": _queueing_answer(queueing),
        "failures": _failures(rows["failures"]),
        "unattributed": _unattributed(rows["unattributed"], rows["idle"]),
        "next": _next(rows["waits"], idle),
    }
    return {"from": rows["from"], "to": rows["to"], "answers": answers}


def _answer(code: str, rows: list[Json], **params: Any) -> Json:
    return {"code": code, "params": params, "rows": rows}


def permille(part: int, whole: int) -> int | None:
    """Thousandths, rounded down; None of nothing."""
    return part * 1000 // whole if whole > 0 else None


def percent(thousandths: int) -> str:
    """For sentences."""
    return f"{thousandths // 10}.{thousandths % 10} %"


# --- 1: where is resource idle -------------------------------------------------------------------------
def _idle(places: Iterable[Json]) -> list[Json]:
    """Of each cluster and class, accelerators before the rest, the most idle first. What is reserved is kept
    for somebody, not idle."""
    found = []
    for place in places:
        states: Mapping[str, int] = place["unheld"]
        idle = {name: n for name, n in states.items() if name.startswith(IDLE) and name != RESERVED}
        share = permille(sum(idle.values()), place["capacity"])
        if share is None:
            continue
        cause = max(sorted(idle), key=lambda name: idle[name], default=None)
        found.append(
            {
                "cluster": place["cluster"], "class": place["class"], "simulated": place["simulated"],
                "idle": wide_to_json(sum(idle.values())), "capacity": wide_to_json(place["capacity"]),
                "permille": share, "cause": cause,
                "causes": {name: wide_to_json(amount) for name, amount in sorted(idle.items())},
                "unknown_permille": permille(states.get("unknown", 0), place["capacity"]),
            }
        )  # fmt: skip
    return sorted(
        found, key=lambda row: (not _is_accelerator(row), -row["permille"], row["cluster"], row["class"])
    )


def _is_accelerator(row: Json) -> bool:
    return row["class"] not in ("cpu", "memory")


def _idle_answer(found: list[Json]) -> Json:
    if not found:
        return _answer("unknown", [])
    worst = found[0]
    if worst["permille"] == 0:
        return _answer("nowhere", found)
    return _answer(
        "idle-most", found, cluster=worst["cluster"], device_class=worst["class"],
        percent=percent(worst["permille"]), cause=worst["cause"], simulated=worst["simulated"],
    )  # fmt: skip


# --- 2: which task type queues worst ---------------------------------------------------------------------
def _queueing(waits: Iterable[Json]) -> list[Json]:
    """Of each kind: how long its workloads waited in the mean, the longest first; not what they chose to."""
    times: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = {}
    for wait in waits:
        if wait["reason"] in BY_WILL:
            continue
        kind = times.setdefault(wait["kind"], {})
        kind[wait["reason"]] = kind.get(wait["reason"], 0) + int(wait["time"])
        counts[wait["kind"]] = counts.get(wait["kind"], 0) + wait["count"]
    rows = [
        {
            "kind": kind, "time": wide_to_json(sum(reasons.values())), "waits": counts[kind],
            "mean": sum(reasons.values()) // max(1, counts[kind]),
            "reason": max(sorted(reasons), key=lambda name: reasons[name]),
        }
        for kind, reasons in times.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["mean"], row["kind"]))


def _queueing_answer(rows: list[Json]) -> Json:
    if not rows:
        return _answer("unknown", [])
    worst = rows[0]
    return _answer(
        "queues-worst", rows, kind=worst["kind"], mean=worst["mean"], waits=worst["waits"],
        reason=worst["reason"],
    )  # fmt: skip


# --- 3: which failures recur -----------------------------------------------------------------------------
def _failures(groups: Iterable[Json]) -> Json:
    rows = [
        {
            "signature": group["signature"], "count": group["count"], "workloads": group["workloads"],
            "simulated": group["simulated"], "kind": group["kind"],
            "stage": (group.get("verdict") or {}).get("stage"),
            "failure": (group.get("verdict") or {}).get("code"),
            "responsible": (group.get("verdict") or {}).get("responsible"),
        }
        for group in groups
    ]  # fmt: skip
    again = [row for row in rows if row["count"] > 1]
    if not rows:
        return _answer("none", [])
    if not again:
        return _answer("none-recurs", rows, groups=len(rows))
    worst = again[0]
    return _answer(
        "recurs-most", again, failure=worst["failure"], stage=worst["stage"], count=worst["count"],
        responsible=worst["responsible"], groups=len(again),
    )  # fmt: skip


# --- 4: whose usage can't be attributed --------------------------------------------------------------------
def _unattributed(rows: list[Json], places: list[Json]) -> Json:
    shown = [{**row, "held": wide_to_json(row["held"])} for row in rows]
    if shown:
        names = sorted({row["project"] for row in rows})
        return _answer("not-attributed", shown, projects=", ".join(names), count=len(names))
    held = sum(place["capacity"] - sum(place["unheld"].values()) for place in places)
    return _answer("all-attributed" if held > 0 else "unknown", [])


# --- 5: rules, or resources ----------------------------------------------------------------------------
def _next(waits: Iterable[Json], idle: list[Json]) -> Json:
    """Waits that a rule would end speak for rules, as do waits for capacity while much of it is idle; waits
    for capacity while little is idle speak for resources."""
    rules = resources = 0
    for wait in waits:
        if wait["reason"] in BY_RULES:
            rules += int(wait["time"])
        elif wait["reason"] in BY_RESOURCES:
            resources += int(wait["time"])
    devices = _decisive(idle)
    if not devices:
        return _answer("unknown", [])
    share = permille(sum(int(r["idle"]) for r in devices), sum(int(r["capacity"]) for r in devices)) or 0
    figures = [{"waited_for_rules": wide_to_json(rules), "waited_for_capacity": wide_to_json(resources),
                "idle_permille": share}]  # fmt: skip
    if rules + resources == 0:
        code = "neither"
    elif rules >= resources or share >= IDLE_ENOUGH:
        code = "rules"
    else:
        code = "resources"
    return _answer(
        code, figures, rules=rules, resources=resources, percent=percent(share), enough=percent(IDLE_ENOUGH),
        simulated=devices[0]["simulated"],
    )  # fmt: skip


def _decisive(idle: list[Json]) -> list[Json]:
    """Real accelerators; where there are none simulated ones, else processors: of one kind, to be summed."""
    for simulated, classes in ((False, ("gpu", "npu", "other")), (True, ("gpu", "npu", "other")),
                               (False, ("cpu",)), (True, ("cpu",))):  # fmt: skip
        found = [row for row in idle if row["class"] in classes and row["simulated"] is simulated]
        if found:
            return found
    return []
