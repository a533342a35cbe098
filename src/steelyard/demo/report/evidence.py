"""What a stranger can check, how, and what nobody can conclude from this run."""

from __future__ import annotations

from steelyard.demo.report.facts import Facts
from steelyard.demo.report.speech import Speech, exact
from steelyard.demo.report.top import missing
from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.parts import badge, section, table
from steelyard.reports.drawing.parts import facts as terms

#: What stays open after this run, whoever is asked: (code of its text, reason of the closed list).
PENDING = (
    ("simulated", "simulated-device"),
    ("hardware", "hardware-absent"),
    ("support", "support-matrix-unconfirmed"),
    ("witness", "evidence-incomplete"),
    ("time", "time-not-anchored"),
    ("acknowledged", "human-observation-needed"),
    ("isolation", "observer-missing"),
)


def evidence(facts: Facts, say: Speech) -> Markup:
    """The checkpoint, the checks, the verifier's own words, and how to run it again."""
    anchor, heading = f"{say.lang}-evidence", say("heading.evidence")
    if not facts.checkpoint:
        return section(anchor, heading, missing(say))
    checkpoint, key = facts.checkpoint, facts.checkpoint["key"]
    return section(
        anchor,
        heading,
        terms(
            (
                (say("term.short-code"), el("code", checkpoint["short_code"])),
                (say("term.size"), exact(checkpoint["size"])),
                (say("term.root"), el("code", checkpoint["root"])),
                (say("term.key"), el("code", key["name"])),
                (say("term.fingerprint"), el("code", key["fingerprint"])),
            )
        ),
        el("p", say("how-to-verify")),
        el("pre", f"python3 -I bundle/verify/verify.py bundle --key {key['fingerprint']} --lang {say.lang}"),
        _verifier(facts, say),
        el("h3", say("heading.checks")),
        _checks(facts, say),
        lead=say("lead.evidence"),
    )


def _verifier(facts: Facts, say: Speech) -> Markup:
    if not facts.verified:
        return missing(say)
    answer = facts.verified
    mark = badge(say("verifier.ok"), "ok") if answer["exit"] == 0 else badge(say("verifier.bad"), "bad")
    return el("div", el("p", say("verifier.said"), " ", mark), el("pre", answer["text"][say.lang].strip()))


def _checks(facts: Facts, say: Speech) -> Markup:
    rows = [
        (
            el("code", check["id"]),
            say.word("check", check["id"]),
            exact(check["checked"]),
            badge(say("holds"), "ok") if check["ok"] else badge(say("broken"), "bad"),
        )
        for check in facts.checks.get("checks", ())
    ]
    head = ("col.check", "col.what", "col.checked", "col.result")
    return table([say(code) for code in head], rows, figures=(2,)) if rows else missing(say)


def pending(facts: Facts, say: Speech) -> Markup:
    """What this run does not show, each with its reason; none of it is a pass."""
    rows = [
        (badge(say("pending"), "pending"), say(f"pending.{code}"), el("code", reason))
        for code, reason in PENDING
    ]
    body = table((say("col.status"), say("col.what"), say("col.reason")), rows, cls="cards")
    return section(f"{say.lang}-pending", say("heading.pending"), body, lead=say("lead.pending"))
