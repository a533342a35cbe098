"""The books: what was held by project × kind × class, and the sums that have to meet capacity × time."""

from __future__ import annotations

from collections import defaultdict

from steelyard.demo.closing import balances
from steelyard.demo.expect import Json
from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech, exact, percent
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.parts import badge, section, table
from steelyard.reports.drawing.scale import clock, date_and_time

STATES = ("starting", "running", "stopping", "releasing")


def usage(facts: Facts, say: Speech) -> Markup:
    """The table of use, the balance of each class, and the split of a project that moved."""
    anchor, heading = f"{say.lang}-usage", say("heading.usage")
    if not facts.usage:
        return section(anchor, heading, missing(say))
    lead = say(
        "lead.usage", t0=date_and_time(facts.usage["from"]), t1=date_and_time(facts.usage["to"]),
        micros=exact(facts.usage["to"] - facts.usage["from"]),
    )  # fmt: skip
    return section(
        anchor,
        heading,
        el("h3", say("heading.balance")),
        _balance(facts, say),
        el("h3", say("heading.by-project")),
        _rows(facts, say),
        _moved(facts, say),
        lead=lead,
    )


def _rows(facts: Facts, say: Speech) -> Markup:
    ordered = sorted(
        facts.usage["rows"], key=lambda row: (row["project"] or "", row["kind"] or "", row["class"])
    )
    rows = [
        (
            row["project"] or "–",
            say.word("kind", row["kind"]),
            say.kind_of(row["class"], row["simulated"]),
            say.product(row["class"], int(row["held"])),
            *(_or_dash(row["class"], int(row["by_state"].get(state, 0)), say) for state in STATES),
            exact(row["held"]),
        )
        for row in ordered
    ]
    head = [say("col.project"), say("col.kind"), say("col.class"), say("col.held")]
    head += [say.word("state", state) for state in STATES] + [say("col.exact")]
    return table(head, rows, figures=range(3, 9))


def _or_dash(device_class: str, value: int, say: Speech) -> str:
    return say.product(device_class, value) if value else "–"


def _balance(facts: Facts, say: Speech) -> Markup:
    unheld: dict[tuple[str, bool], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in facts.usage["unheld"]:
        unheld[row["class"], bool(row["simulated"])][row["state"]] += int(row["quantity_time"])
    rows = []
    for key, balance in balances(facts.usage).items():
        name = key[0]
        parts = [say("balance.part", state=say.word("state", "held"), n=say.product(name, balance.held))]
        parts += [
            say("balance.part", state=say.word("state", state), n=say.product(name, amount))
            for state, amount in sorted(unheld[key].items())
        ]
        rows.append(
            (
                el("span", say.kind_of(*key), cls="tight"),
                el("span", " + ".join(parts), cls="told"),
                exact(balance.held),
                exact(balance.unheld),
                el("span", exact(balance.capacity), cls="sum"),
                badge(exact(balance.difference), "bad" if balance.difference else "ok"),
                percent(balance.held, balance.capacity),
            )
        )
    head = (
        "col.class", "col.parts", "col.held-exact", "col.unheld-exact", "col.capacity-exact",
        "col.difference", "col.share",
    )  # fmt: skip
    return table([say(code) for code in head], rows, figures=(2, 3, 4, 5, 6))


def _moved(facts: Facts, say: Speech) -> Markup:
    """Use of a project by the team that it belonged to at the time."""
    by_project: dict[str, set[str]] = defaultdict(set)
    for row in facts.usage_by_team.get("rows", ()):
        by_project[row["project"] or ""].add(row["team"] or "")
    moved = sorted(project for project, teams in by_project.items() if len(teams) > 1)
    if not moved or facts.moved_at is None:
        return Markup()
    sums: dict[tuple[str, str, str, bool], int] = defaultdict(int)
    for row in facts.usage_by_team["rows"]:
        if row["project"] in moved:
            sums[row["project"], row["class"], row["team"] or "–", bool(row["simulated"])] += int(row["held"])
    rows = [
        (project, say.kind_of(name, simulated), team, say.product(name, held), exact(held))
        for (project, name, team, simulated), held in sorted(sums.items())
    ]
    head = ("col.project", "col.class", "col.team", "col.held", "col.exact")
    return el(
        "div",
        el("h3", say("heading.moved")),
        el("p", say("moved", project=", ".join(moved), at=clock(facts.moved_at))),
        table([say(code) for code in head], rows, figures=(3, 4)),
    )


def waiting_time(usage_answer: Json) -> dict[str, int]:
    """Reason → µs waited, over all projects and kinds."""
    sums: dict[str, int] = defaultdict(int)
    for row in usage_answer.get("waits", ()):
        sums[row["reason"]] += int(row["time"])
    return dict(sums)
