"""The top of the page: what this is, whether all went as expected, and what was expected."""

from __future__ import annotations

from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech
from steelyard.reports.drawing.markup import Markup, el, join
from steelyard.reports.drawing.parts import badge, note, section, table
from steelyard.reports.drawing.scale import date_and_time

SECTIONS = (
    "told", "resources", "use", "timeline", "contention", "failures", "receipts", "usage", "indicators",
    "evidence", "pending",
)  # fmt: skip


def header(facts: Facts, say: Speech) -> Markup:
    """Name, moment, figures, contents."""
    good = sum(1 for result in facts.results if result.ok)
    everything = good == len(facts.results) > 0
    mark = badge(say("all-met") if everything else say("not-all-met"), "ok" if everything else "bad")
    return el(
        "header",
        el("h1", say("title")),
        el(
            "p",
            say(
                "under",
                version=facts.version.get("version"),
                at=date_and_time(facts.began),
                duration=say.duration(facts.ended - facts.began),
            ),
            " ",
            mark,
            cls="under",
        ),
        el("p", say("intro")),
        note(say("simulated-notice"), kind="sim"),
        _figures(facts, say, good),
        el(
            "nav",
            [el("a", say(f"heading.{name}"), href=f"#{say.lang}-{name}") for name in SECTIONS],
            cls="toc",
        ),
    )


def _figures(facts: Facts, say: Speech, good: int) -> Markup:
    attempts = [attempt for view in facts.workloads for attempt in view["attempts"]]
    confirmed = sum(1 for attempt in attempts if (attempt["receipt"] or {}).get("state") == "confirmed")
    pairs = (
        (f"{good} / {len(facts.results)}", "figure.expectations"),
        (len(facts.workloads), "figure.workloads"),
        (len(attempts), "figure.attempts"),
        (len(facts.refusals), "figure.refusals"),
        (confirmed, "figure.receipts"),
        (facts.checkpoint.get("size", "–"), "figure.leaves"),
    )
    return el(
        "ul", [el("li", el("b", number), el("span", say(code))) for number, code in pairs], cls="figures"
    )


def told(facts: Facts, say: Speech) -> Markup:
    """What was expected and what was seen, in plain words."""
    rows = [
        (
            badge(say("met"), "ok") if result.ok else badge(say("not-met"), "bad"),
            say.said(result.expected),
            say.said(result.seen),
            el("span", " ".join(result.rows), cls="mono"),
        )
        for result in facts.results
    ]
    errors = [step for step in facts.steps if step.get("error")]
    return section(
        f"{say.lang}-told",
        say("heading.told"),
        table((say("col.ok"), say("col.expected"), say("col.seen"), say("col.rows")), rows, cls="cards"),
        [note(f"{say.said_step(step['id'])}: {step['error']}", kind="bad") for step in errors],
        lead=say("lead.told"),
    )


def footer(facts: Facts, say: Speech) -> Markup:
    """The anchor: a kept copy of this page binds the log to what it was then."""
    code = facts.checkpoint.get("short_code")
    return el(
        "footer",
        el("p", say("footer.anchor"), " ", el("code", code or "–", cls="short")),
        el("p", say("footer.made", at=date_and_time(facts.ended), install=facts.version.get("install_id"))),
    )


def missing(say: Speech) -> Markup:
    """In the place of what was not seen."""
    return join([note(say("missing"), kind="pending")])
