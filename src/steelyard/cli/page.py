"""The page of a workload: what matters first, then its time, its members, its release."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from steelyard.cli import timeline
from steelyard.cli.amounts import amounts
from steelyard.cli.safe import one_line, to_json
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.reasons import WAIT_SLICE
from steelyard.model.units import format_duration

MOST_RESULTS = 20
_AGREES = {"ended", "closed", "free"}


def draw(session: Session, view: Mapping[str, Any]) -> None:
    """Prints the page."""
    now = max(time.time_ns() // 1000, view["submitted_at"])
    session.line(headline(session, view, now))
    for reason in (view.get("reasons") or [])[1:]:
        session.line(f"  - {session.reason(reason)}")
    if view.get("ahead"):
        session.say("cli.show.ahead", count=view["ahead"])
    if is_failure(view):
        draw_verdict(session, view["verdict"])
    session.line()
    _facts(session, view)
    draw_group(session, view)
    _evaluation(session, view)
    use, limit = view.get("use"), (view.get("spec") or {}).get("idle_limit")
    if use and limit:
        session.say("cli.show.idle", idle=use["idle_for"], limit=limit["after"])
    first = view["reasons"][0]["code"] if view.get("reasons") else None
    waits_for = WAIT_SLICE.get(first) if first is not None else None
    for attempt in view["attempts"]:
        session.line()
        _attempt(session, attempt, now, waits_for, told=len(view["attempts"]) > 1)
    for eviction in view.get("evictions") or ():
        draw_eviction(session, eviction)
    for eviction in view.get("evicted") or ():
        _made_room(session, eviction)


def headline(session: Session, view: Mapping[str, Any], now: int) -> str:
    """The state in plain words: the verdict, the binding reason, or what goes on."""
    phase, outcome = view["phase"], view["outcome"]
    if is_failure(view):
        sentence = session.verdict(view["verdict"])
        return session.text("cli.show.failed", outcome=outcome, sentence=sentence)
    if view.get("reasons"):
        return session.text("cli.show.waits", phase=phase, sentence=session.reason(view["reasons"][0]))
    place = (view.get("cluster") or "–") + session.simulated(view)
    if phase == "finished":
        code = "cli.show.succeeded" if outcome == "succeeded" else "cli.show.finished"
        return session.text(code, outcome=outcome, ran=_spent(view, "running"), cluster=place)
    since = view.get("started_at") or view.get("placed_at") or view["submitted_at"]
    spent = _spent(view, phase)
    ran = now - since if spent is None else spent
    return session.text("cli.show.goes-on", phase=phase, stage=view.get("sub_stage"), ran=ran, cluster=place)


def is_failure(view: Mapping[str, Any]) -> bool:
    """Whether it ended by what has a verdict, and not because somebody asked for it."""
    verdict = view.get("verdict")
    if verdict is None or view["outcome"] in (None, "succeeded"):
        return False
    return bool(verdict["group"] != "none")


def draw_verdict(session: Session, verdict: Mapping[str, Any]) -> None:
    """Whether trying again helps, and what the verdict rests on."""
    if verdict.get("retry"):
        session.say("cli.show.retry", retry=verdict["retry"])
    if verdict.get("rule"):
        session.say("cli.show.evidence", rule=verdict["rule"], catalogue=verdict["catalogue"])
    for pointer in verdict.get("evidence") or ():
        session.line("  " + session.pointer(pointer))
    others = [f"{other['stage']}/{other['code']} ({other['rule']})" for other in verdict.get("others") or ()]
    if others:
        session.say("cli.show.others", what=", ".join(others))


def _spent(view: Mapping[str, Any], state: str) -> int | None:
    """Time of the newest attempt in a stage, µs, as its timeline shows it; None where it was not in it."""
    attempt = max(view.get("attempts") or (), key=lambda one: one["number"], default=None)
    tiles = [tile for tile in (attempt or {}).get("tiles") or () if tile["state"] == state]
    return sum(tile["t1"] - tile["t0"] for tile in tiles) if tiles else None


def group_state(session: Session, group: Mapping[str, Any]) -> str:
    """One line on a service or an array."""
    if group["kind"] == "array":
        return session.text(
            "cli.group.array",
            done=group["done"], total=group["completions"], running=group["running"], failed=group["failed"],
        )  # fmt: skip
    return session.text("cli.group.service", running=group["replicas"]["used"], wanted=group["wanted"])


def draw_group(session: Session, view: Mapping[str, Any]) -> None:
    """What belongs together with a workload, one line each."""
    group = view.get("group")
    if not group:
        return
    session.line(group_state(session, group))
    if group["kind"] == "service" and group["replicas"]["guaranteed"]:
        named = {name: amounts(session, group["quantities"][name]) for name in ("guaranteed", "kept", "lent")}
        session.say("cli.group.guarantee", **group["replicas"], amounts=named["guaranteed"])
    for member in view.get("group_members") or ():
        state = session.word("outcome", member["outcome"]) if member["outcome"] else None
        if state is None:
            known = "standby" if member["standby"] and member["phase"] == "reserved" else None
            state = session.word("why", known) if known else session.word("phase", member["phase"])
        shared = f"  {session.word('sharing', member['sharing'])}" if member.get("sharing") else ""
        session.line(f"  {member['index']:>4}  {member['id']}  {one_line(member['name'])}  {state}{shared}")


def _evaluation(session: Session, view: Mapping[str, Any]) -> None:
    """What was evaluated on what with which result; of a model's workload, who evaluated it."""
    found = view.get("evaluation")
    if found:
        model, data = found["model"], found["dataset"]
        session.say(
            "cli.evaluation.of", model=one_line(model["name"]), dataset=one_line(data["name"]),
            model_digest=model["digest"], dataset_digest=data["digest"], workload=model["workload"],
        )  # fmt: skip
        result = found["result"]
        if result is not None:
            session.say("cli.evaluation.result", state=result["state"], sha256=result["sha256"])
            for key, value in sorted((result["value"] or {}).items())[:MOST_RESULTS]:
                session.line(f"  {one_line(str(key))}: {one_line(to_json(value))}")
    for other in view.get("evaluations") or ():
        session.say("cli.evaluation.by", id=other["id"], name=one_line(other["name"]))


def _facts(session: Session, view: Mapping[str, Any]) -> None:
    session.line(f"{view['name']}  {view['id']}")
    team = f" ({view['team']})" if view.get("team") else ""
    session.say(
        "cli.show.facts",
        kind=view["kind"],
        project=f"{view['project']}{team}",
        namespace=view["namespace"],
        queue=view["queue"],
        priority=view["priority"],
        submitter=view.get("submitter"),
    )
    session.say("cli.show.asked", amounts=amounts(session, view.get("requested")))
    session.say("cli.show.submitted", at=view["submitted_at"])


def _attempt(
    session: Session, attempt: Mapping[str, Any], now: int, waits_for: str | None, *, told: bool
) -> None:
    """`told`: say why it ended, for the page's first line speaks of the last attempt alone."""
    state = session.word("outcome", attempt["outcome"]) if attempt["outcome"] else None
    state = state or session.word("phase", attempt["phase"])
    place = f" · {attempt['cluster']}{session.simulated(attempt)}" if attempt["cluster"] else ""
    session.line(session.text("cli.show.attempt", number=attempt["number"], state=state) + place)
    if told and attempt.get("verdict"):
        session.line("  " + session.cause(attempt["verdict"]))
    timeline.draw(session, attempt, now, waits_for)
    for member in attempt["members"]:
        _member(session, member)
    if attempt["receipt"]:
        _receipt(session, attempt["receipt"])
    if attempt.get("unproven"):
        unproven = attempt["unproven"]
        state = session.word("release-state", unproven["state"])
        shown = {"id": unproven["id"], "state": state, "at": unproven["quarantined_at"]}
        session.line("  " + session.text("cli.show.unproven", **shown))
    for holder in attempt.get("next_holders") or ():
        who = holder["name"] or session.text("cli.explain.hidden")
        shown = {"device": holder["uid"], "who": who, "at": holder["placed_at"]}
        session.line("  " + session.text("cli.show.next-holder", **shown))


def _member(session: Session, member: Mapping[str, Any]) -> None:
    parts = [f"{member['role']}/{member['index']}", session.word("member", member["phase"])]
    if member.get("node"):
        parts.append(member["node"])
    if member.get("exit_code") is not None:
        parts.append(session.text("cli.show.exit", code=member["exit_code"]))
    if member.get("exit_signal") is not None:
        parts.append(session.text("cli.show.signal", signal=member["exit_signal"]))
    if member.get("receipt"):
        parts.append(session.word("receipt", member["receipt"]["state"]))
    if member.get("endpoint"):
        parts.append(member["endpoint"])
    if member.get("limits"):
        parts.append(session.text("cli.show.limits", limits=member["limits"]))
    session.line("  " + " · ".join(one_line(part) for part in parts))
    for device in member["devices"]:
        held = amounts(session, {device["class"]: device["quantity"]})
        model = f" {device['model']}" if device.get("model") else ""
        asked = _asked(session, member, device)
        session.line(f"    {held}{asked}:{model} {one_line(device['uid'])}{session.simulated(device)}")


def _asked(session: Session, member: Mapping[str, Any], device: Mapping[str, Any]) -> str:
    """What was asked for, where more of it was granted."""
    kind = device["class"]
    requested = (member.get("requested") or {}).get(kind)
    granted = sum(each["quantity"] for each in member["devices"] if each["class"] == kind)
    if requested is None or granted <= requested:
        return ""
    return " (" + session.text("cli.show.requested", amount=amounts(session, {kind: requested})) + ")"


def _receipt(session: Session, receipt: Mapping[str, Any]) -> None:
    state = session.word("receipt", receipt["state"])
    session.line("  " + session.text("cli.show.receipt", state=state, at=receipt["confirmed_at"]))
    signals = []
    for name, seen in receipt["signals"].items():
        mark = "✓" if seen in _AGREES else "?" if seen in (None, "unknown") else "✗"
        signals.append(f"{mark} {session.word('signal', name)}: {session.word('seen', seen)}")
    session.line("    " + "  ".join(signals))
    cleared = sorted((receipt.get("counts") or {}).items())
    if counts := [f"{session.word('cleared', what)} {number}" for what, number in cleared]:
        session.line("    " + session.text("cli.show.cleared", what=", ".join(counts)))
    for what, seen, *_ in receipt.get("checks") or ():
        session.line(f"    {session.word('probe', str(what))}: {session.word('seen', str(seen))}")
    for left in receipt.get("residue") or ():
        session.line("    " + session.text("cli.show.residue", what=str(left)))


def draw_eviction(session: Session, eviction: Mapping[str, Any]) -> None:
    """By whom it was stopped, and what it cost; of a gang that goes on, which members left it."""
    if eviction.get("members"):
        _shrunk(session, eviction)
        return
    session.say(
        "cli.show.evicted",
        at=format_time(eviction["at"]),
        preemptor=eviction.get("preemptor_name") or eviction.get("preemptor"),
        lost=format_duration(eviction.get("lost_time")),
        rule=session.word("evicted-by", eviction["rule"]),
        limit=(eviction.get("limit") or {}).get("node"),
        queue=eviction.get("goes_to") or eviction.get("queue") or "–",
    )


def _shrunk(session: Session, eviction: Mapping[str, Any]) -> None:
    left = [f"{member['role']}/{member['index']}" for member in eviction["members"]]
    session.say(
        "cli.show.shrunk",
        at=format_time(eviction["at"]),
        preemptor=eviction.get("preemptor_name") or eviction.get("preemptor"),
        rule=session.word("evicted-by", eviction["rule"]),
        members=", ".join(left[:8]) + (", …" if len(left) > 8 else ""),
        quantity=amounts(session, eviction["quantity"]),
        lost=format_duration(eviction.get("lost_time")),
        stay=eviction["goes_on_with"],
    )


def _made_room(session: Session, eviction: Mapping[str, Any]) -> None:
    session.say(
        "cli.show.evicted-others",
        at=format_time(eviction["at"]),
        victim=eviction.get("victim_name"),
        rule=session.word("evicted-by", eviction["rule"]),
        quantity=amounts(session, eviction["quantity"]),
        lost=format_duration(eviction.get("lost_time")),
    )
