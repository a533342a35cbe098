"""Where more was asked for than there was: waits with their holders, refusals in numbers, a preemption."""

from __future__ import annotations

from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.parts import facts as terms
from steelyard.reports.drawing.parts import note, section, table
from steelyard.reports.drawing.scale import clock


def contention(facts: Facts, say: Speech) -> Markup:
    """All three."""
    return section(
        f"{say.lang}-contention",
        say("heading.contention"),
        el("h3", say("heading.wait")),
        _explained(facts, say),
        _waits(facts, say),
        el("h3", say("heading.refusals")),
        _refusals(facts, say),
        el("h3", say("heading.preemption")),
        _preemptions(facts, say),
        lead=say("lead.contention"),
    )


def _explained(facts: Facts, say: Speech) -> Markup:
    if not facts.explanation.get("reasons"):
        return missing(say)
    reason = facts.explanation["reasons"][0]
    name = reason["resource"]
    rows = [
        (
            holder["name"] or holder["id"] or "–",
            holder["project"] or "–",
            clock(holder["since"]),
            say.amount(name, holder["amount"]),
        )
        for holder in reason["holders"]
    ]
    total = sum(holder["amount"] for holder in reason["holders"])
    rows.append((el("span", say("sum"), cls="sum"), "", "", el("span", say.amount(name, total), cls="sum")))
    others = [el("li", say.reason(other)) for other in facts.explanation["reasons"][1:]]
    return el(
        "div",
        note(el("strong", "finetune"), " – ", say.reason(reason)),
        el("details", el("summary", say("other-reasons", count=len(others))), el("ul", others))
        if others
        else None,
        table(
            (say("col.holder"), say("col.project"), say("col.since"), say("col.of-shortfall")),
            rows,
            figures=(2, 3),
        ),
    )


def _waits(facts: Facts, say: Speech) -> Markup:
    rows = [
        (
            view["name"],
            attempt["number"],
            say.word("wait", wait["reason"]),
            clock(wait["t0"]),
            clock(wait["t1"]),
            say.duration(wait["t1"] - wait["t0"]),
        )
        for view in sorted(facts.workloads, key=lambda view: view["submitted_at"])
        for attempt in view["attempts"]
        for wait in attempt["waits"]
        if wait["t1"] is not None and wait["t1"] - wait["t0"] >= 500_000
    ]
    head = ("col.workload", "col.attempt", "col.reason", "col.from", "col.to", "col.lasted")
    return table([say(code) for code in head], rows, figures=(1, 3, 4, 5)) if rows else Markup()


def _refusals(facts: Facts, say: Speech) -> Markup:
    if not facts.refusals:
        return missing(say)
    rows = []
    for record in facts.refusals:
        for reason in record["reasons"]:
            name = reason["resource"] or "other"
            rows.append(
                (
                    el("span", record["name"] or "–", cls="tight"),
                    record["project"] or "–",
                    record["submitter"] or "–",
                    el("span", say.reason(reason), cls="told"),
                    *(say.amount(name, reason[part]) for part in ("limit", "used", "requested", "short_by")),
                )
            )
    head = (
        "col.workload", "col.project", "col.submitter", "col.reason", "col.limit", "col.used", "col.asked",
        "col.short-by",
    )  # fmt: skip
    return table([say(code) for code in head], rows, figures=(4, 5, 6, 7))


def _preemptions(facts: Facts, say: Speech) -> Markup:
    victims = [view for view in facts.workloads if view["evictions"]]
    if not victims:
        return missing(say)
    return el("div", [_preemption(view, eviction, say) for view in victims for eviction in view["evictions"]])


def _preemption(view: Json, eviction: Json, say: Speech) -> Markup:
    attempts = view["attempts"]
    index = next((i for i, a in enumerate(attempts) if a["id"] == eviction["attempt"]), 0)
    before, after = attempts[index], attempts[index + 1] if index + 1 < len(attempts) else None
    placed = after["times"]["placed"] if after else None
    story: list[tuple[str, str]] = [
        (clock(view["submitted_at"]), say("preempt.submitted", name=view["name"])),
        (clock(before["times"]["started"]), say("preempt.started", node=_node(before))),
        (
            clock(eviction["at"]),
            say("preempt.evicted", preemptor=eviction["preemptor_name"], rule=eviction["rule"],
                version=eviction["policy_version"]),
        ),
        (clock(before["times"]["release_confirmed"]), say("preempt.released")),
        (clock(placed), say("preempt.resumed", number=after["number"] if after else None)),
        (
            clock(view["finished_at"]),
            say("preempt.ended", outcome=say.word("outcome", view["outcome"]),
                lost=say.duration(eviction["lost_time"])),
        ),
    ]  # fmt: skip
    return terms(story)


def _node(attempt: Json) -> str:
    return str(attempt["members"][0]["node"] or "–") if attempt["members"] else "–"
