"""Indicators that promise no price: what can be said from records, and what is not measured yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from steelyard.demo.closing import balances, same_as_export
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech, percent
from steelyard.demo.report.top import missing
from steelyard.demo.report.usage import waiting_time
from steelyard.model.failures import is_failure
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.parts import badge, section, table

#: Of the list of indicators, those that this version does not measure.
NOT_YET = ("utilisation", "acknowledgement", "manual")


def indicators(facts: Facts, say: Speech) -> Markup:
    """One row an indicator."""
    anchor, heading = f"{say.lang}-indicators", say("heading.indicators")
    if not facts.usage:
        return section(anchor, heading, missing(say))
    rows = [
        ("allocated", _by_class(facts, say, None)),
        ("run", _by_class(facts, say, ("running",))),
        ("start-release", _by_class(facts, say, ("starting", "stopping", "releasing"))),
        ("waiting", _waiting(facts, say)),
        ("rate", _rate(facts, say)),
        ("idle", _unheld(facts, say, "idle")),
        ("unavailable", _unheld(facts, say, "unavailable")),
        ("unknown", _unheld(facts, say, "unknown")),
        ("failures", _failures(facts, say)),
        ("retries", _retries(facts, say)),
        ("preemptions", _preemptions(facts, say)),
        ("headroom", _headroom(facts, say)),
        ("release", _release(facts, say)),
        ("refusals", _refusals(facts, say)),
        ("unattributed", _unattributed(facts, say)),
        ("reconciliation", _reconciled(facts, say)),
    ]
    more = [(name, badge(say("not-measured"), "pending")) for name in NOT_YET]
    shown = [(el("span", say(f"indicator.{name}"), cls="told"), value) for name, value in [*rows, *more]]
    body = table((say("col.indicator"), say("col.value")), shown)
    return section(anchor, heading, body, lead=say("lead.indicators"))


def _lines(parts: Sequence[str]) -> Markup:
    return el("span", " · ".join(parts) or "–")


def _by_class(facts: Facts, say: Speech, states: Sequence[str] | None) -> Markup:
    sums: dict[tuple[str, bool], int] = defaultdict(int)
    for row in facts.usage["rows"]:
        amounts = [row["held"]] if states is None else [row["by_state"].get(state, 0) for state in states]
        sums[row["class"], bool(row["simulated"])] += sum(int(amount) for amount in amounts)
    return _lines(
        [f"{say.kind_of(*key)} {say.product(key[0], value)}" for key, value in sorted(sums.items())]
    )


def _waiting(facts: Facts, say: Speech) -> Markup:
    times = waiting_time(facts.usage)
    return _lines(
        [f"{say.word('wait', reason)} {say.duration(time)}" for reason, time in sorted(times.items())]
    )


def _rate(facts: Facts, say: Speech) -> Markup:
    away: dict[tuple[str, bool], int] = defaultdict(int)
    for row in facts.usage["unheld"]:
        if row["state"].startswith("unavailable"):
            away[row["class"], bool(row["simulated"])] += int(row["quantity_time"])
    return _lines(
        [
            f"{say.kind_of(*key)} {percent(balance.held, balance.capacity - away[key])}"
            for key, balance in balances(facts.usage).items()
        ]
    )


def _unheld(facts: Facts, say: Speech, prefix: str) -> Markup:
    sums: dict[tuple[str, bool, str], int] = defaultdict(int)
    for row in facts.usage["unheld"]:
        if row["state"].startswith(prefix):
            sums[row["class"], bool(row["simulated"]), row["state"]] += int(row["quantity_time"])
    return _lines(
        [
            f"{say.kind_of(name, simulated)} {say.word('state', state)} {say.product(name, value)}"
            for (name, simulated, state), value in sorted(sums.items())
        ]
    )


def _failures(facts: Facts, say: Speech) -> Markup:
    verdicts = [a["verdict"] for v in facts.workloads for a in v["attempts"] if a["verdict"]]
    stages = Counter(v["stage"] for v in verdicts if is_failure(v["stage"], v["code"]))
    return _lines([f"{say.word('stage', stage)} {count}" for stage, count in sorted(stages.items())])


def _retries(facts: Facts, say: Speech) -> Markup:
    more = {view["name"]: len(view["attempts"]) for view in facts.workloads if len(view["attempts"]) > 1}
    return _lines([say("indicator.attempts", name=name, count=count) for name, count in sorted(more.items())])


def _headroom(facts: Facts, say: Speech) -> Markup:
    """Of each service with a guarantee: for how long its replicas' places were kept, and were in use."""
    kept: dict[str, int] = defaultdict(int)
    used: dict[str, int] = defaultdict(int)
    first = {
        view["id"]: view
        for view in facts.workloads
        if (view.get("group") or {}).get("kind") == "service" and view["group"]["index"] == 0
    }
    for view in facts.workloads:
        name = str((view.get("group") or {}).get("id"))
        if name not in first:
            continue
        for attempt in view["attempts"]:
            times = attempt["times"]
            end = times["placed"] or times["release_confirmed"]
            if times["reserved"] is not None and end is not None:
                kept[name] += end - times["reserved"]
            used[name] += sum(tile["t1"] - tile["t0"] for tile in attempt["tiles"])
    return _lines(
        [
            say(
                "indicator.headroom-of", name=view["name"], kept=say.duration(kept[key]),
                used=say.duration(used[key]), guaranteed=view["group"]["replicas"]["guaranteed"],
            )
            for key, view in sorted(first.items())
        ]
    )  # fmt: skip


def _preemptions(facts: Facts, say: Speech) -> Markup:
    evictions = [eviction for view in facts.workloads for eviction in view["evictions"]]
    lost = sum(eviction["lost_time"] or 0 for eviction in evictions)
    return _lines([say("indicator.preempted", count=len(evictions), lost=say.duration(lost))])


def _release(facts: Facts, say: Speech) -> Markup:
    times = sorted(
        attempt["times"]["release_confirmed"] - attempt["times"]["ended"]
        for view in facts.workloads
        for attempt in view["attempts"]
        if attempt["times"]["ended"] and attempt["times"]["release_confirmed"]
    )
    if not times:
        return _lines([])
    middle, late = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
    return _lines([f"p50 {say.duration(middle)}", f"p99 {say.duration(late)}"])


def _refusals(facts: Facts, say: Speech) -> Markup:
    codes = Counter(record["reasons"][0]["code"] for record in facts.refusals if record["reasons"])
    complete = sum(1 for record in facts.refusals if record["complete"])
    parts = [f"{say.word('why', code)} {count}" for code, count in sorted(codes.items())]
    return _lines([*parts, say("indicator.complete", share=percent(complete, len(facts.refusals)))])


def _reconciled(facts: Facts, say: Speech) -> Markup:
    pairs = same_as_export(facts.usage, facts.segments) if facts.segments else {}
    return _lines(
        [f"{say.word('class', name)} {asked - exported}" for name, (asked, exported) in pairs.items()]
    )


def _unattributed(facts: Facts, say: Speech) -> Markup:
    whole = sum(int(row["held"]) for row in facts.usage["rows"] if row["class"] != "memory")
    nobody = sum(
        int(row["held"]) for row in facts.usage["rows"] if row["class"] != "memory" and not row["project"]
    )
    return _lines([percent(nobody, whole)])
