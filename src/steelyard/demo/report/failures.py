"""What failed, at which stage, whose matter it is, and what says so."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech
from steelyard.demo.report.top import missing
from steelyard.model.failures import is_failure
from steelyard.reports.drawing.markup import Child, Markup, el
from steelyard.reports.drawing.parts import badge, section, table
from steelyard.reports.drawing.scale import clock

Cells = tuple[Child, ...]
SIGNALS = ("control", "ledger", "probe")


def failures(facts: Facts, say: Speech) -> Markup:
    """Every verdict; refusals are the failures of the stage before there is a workload."""
    failed = [
        (view, attempt)
        for view in facts.workloads
        for attempt in view["attempts"]
        if attempt["verdict"] and is_failure(attempt["verdict"]["stage"], attempt["verdict"]["code"])
    ]
    if not failed and not facts.refusals:
        return section(f"{say.lang}-failures", say("heading.failures"), missing(say))
    rows = [_refused(record, say) for record in facts.refusals]
    rows += [_row(view, attempt, say) for view, attempt in failed]
    head = ("col.workload", "col.stage", "col.group", "col.responsible", "col.what", "col.evidence")
    return section(
        f"{say.lang}-failures",
        say("heading.failures"),
        table([say(code) for code in head], rows),
        lead=say("lead.failures"),
    )


def _refused(record: Json, say: Speech) -> Cells:
    reason = record["reasons"][0] if record["reasons"] else {"code": "unknown"}
    verdict = record.get("verdict") or {"group": "unknown", "responsible": "submitter"}
    return (
        el("span", record["name"] or "–", cls="tight"),
        badge(say("stage.refused"), "pending"),
        el("span", say.word("group", verdict["group"]), cls="tight"),
        el("span", say.word("responsible", verdict["responsible"]), cls="tight"),
        el("span", say.reason(reason), cls="told"),
        el("code", record["id"], cls="tight"),
    )


def _row(view: Json, attempt: Json, say: Speech) -> Cells:
    verdict = attempt["verdict"]
    name = el("span", view["name"], cls="tight")
    if view["simulated"]:
        name = el("span", name, " ", badge(say("simulated"), "sim"))
    return (
        name,
        badge(say.word("stage", verdict["stage"]), "bad"),
        el("span", say.word("group", verdict["group"]), cls="tight"),
        el("span", say.word("responsible", verdict["responsible"]), cls="tight"),
        el("span", say.verdict(verdict), cls="told"),
        _pointers(verdict["evidence"], say),
    )


def _pointers(evidence: Sequence[Json], say: Speech) -> Markup:
    """Each counter and line; what the engine said stands in the sentence already."""
    shown = [say.pointer(pointer) for pointer in evidence if pointer["field"] != "failure_text"]
    return el("div", [el("div", el("code", part, cls="tight")) for part in shown])


def receipts(facts: Facts, say: Speech) -> Markup:
    """For each attempt that held something: when it ended, when its release was proven, by what."""
    rows = []
    for view in sorted(facts.workloads, key=lambda view: view["submitted_at"]):
        for attempt in view["attempts"]:
            if attempt["times"]["placed"] is not None:
                rows.append(_receipt(view, attempt, say))
    head = [say("col.workload"), say("col.attempt"), say("col.outcome"), say("col.ended"), say("col.release")]
    head += [say.word("signal", signal) for signal in SIGNALS]
    head += [say("col.looked-at"), say("col.receipt")]
    body = table(head, rows, figures=(1, 3, 4)) if rows else missing(say)
    return section(f"{say.lang}-receipts", say("heading.receipts"), body, lead=say("lead.receipts"))


def _receipt(view: Json, attempt: Json, say: Speech) -> Cells:
    receipt, times = attempt["receipt"], attempt["times"]
    lasted = None
    if times["ended"] is not None and times["release_confirmed"] is not None:
        lasted = times["release_confirmed"] - times["ended"]
    start: Cells = (
        el("span", view["name"], cls="tight"),
        attempt["number"],
        el("span", say.word("outcome", attempt["outcome"]), cls="tight"),
        clock(times["ended"]),
        say.duration(lasted),
    )
    if receipt is None:
        return (*start, "–", "–", "–", "–", badge(say("none"), "bad"))
    kind = {"confirmed": "ok", "quarantined": "bad"}.get(receipt["state"], "pending")
    checks = _looked(receipt["checks"], say)
    residue = f" · {say('residue')}: {', '.join(receipt['residue'][:4])}" if receipt["residue"] else ""
    return (
        *start,
        *(_signal(receipt["signals"].get(signal), say) for signal in SIGNALS),
        el("span", f"{checks}{residue}" or "–", cls="told"),
        badge(say.word("receipt", receipt["state"]), kind),
    )


def _looked(checks: Sequence[Sequence[str]], say: Speech) -> str:
    """What was looked at, grouped by what was seen."""
    groups: dict[str, list[str]] = {}
    for what, seen, *_ in checks:
        groups.setdefault(seen, []).append(say.word("look", what))
    return "; ".join(
        f"{say.word('seen', seen)}: {say('comma').join(names)}" for seen, names in groups.items()
    )


def _signal(value: str | None, say: Speech) -> Markup:
    return el("span", "–" if value is None else say.word("seen", value), cls="tight")
