"""Quarantine: releases that were not proven, until they are, or until an operator answers for them.

A release that the three signals did not agree on is an object of its own from then on. It is probed again by
itself, ever less often; what an operator asks (confirm, force, fence) stands in its row and is carried out
here, for only the holder of the lease changes what is offered. A new probe decides every time; only `force`
closes without one, and never as proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from steelyard.control.agents import Fence, Forget, Probe
from steelyard.control.context import Context
from steelyard.control.flags import Flags
from steelyard.control.parts import places
from steelyard.engines.port import Fenced, ReleaseProbe
from steelyard.evidence.leaf import Head, LeafDraft
from steelyard.model.ids import render
from steelyard.model.resources import ACCELERATORS
from steelyard.model.units import MINUTE, SECOND
from steelyard.services.live_records import LiveAttempt, LiveMember, LiveRelease
from steelyard.store import releases as repository
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import NO_HEAD, Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
#: The n-th probe by itself comes 2ⁿ⁻¹ of this after the one before.
PROBE_AFTER, PROBE_AT_LEAST = 2 * SECOND, 5 * MINUTE
#: What was ended needs a moment to be gone: so long a fence looks again before it says what is left.
FENCE_SETTLES, LOOK_AGAIN = 5 * SECOND, SECOND // 4
#: Engines that did not answer an operator's question by then did not.
ANSWER_WITHIN = 20 * SECOND
MAX_SHOWN = 50


def seen_of(probes: Iterable[ReleaseProbe]) -> Row:
    """What probes found, as it is stored and shown: when, each check with its number, what is left."""
    found = list(probes)
    checks = []
    for probe in found:
        numbers = dict(probe.numbers)
        checks += [[what, seen, numbers.get(what)] for what, seen in probe.checks]
    residue = [left for probe in found for left in probe.residue]
    return {
        "at": max((probe.at for probe in found), default=None),
        "checks": checks,
        "residue": residue[:MAX_SHOWN],
        "left": len(residue),
    }


def reasons_of(attempt: LiveAttempt, probes: Mapping[str, ReleaseProbe], ledger: list[Row]) -> list[Row]:
    """Every reason for which a release is not proven: by the live probe, the ledger, the control plane."""
    reasons: list[Row] = []
    for place, (_, cluster) in places(attempt).items():
        reasons += _by_probe(cluster, probes.get(place))
    reasons += ledger
    reasons += [
        _not_seen(member)
        for member in attempt.members
        if member.exit_code is None and member.exit_signal is None
    ]
    return reasons[:MAX_SHOWN]


def _by_probe(cluster: str, probe: ReleaseProbe | None) -> list[Row]:
    if probe is None:
        return [{"code": "release.probe-missing", "signal": "probe", "cluster": cluster}]
    numbers = dict(probe.numbers)
    return [
        {"code": "release.probe-occupied", "signal": "probe", "check": what, "seen": seen,
         "number": numbers.get(what), "cluster": cluster}
        for what, seen in probe.checks
        if seen in ("remains", "held", "alive")
    ]  # fmt: skip


def _not_seen(member: LiveMember) -> Row:
    return {"code": "release.end-not-seen", "signal": "control", "member": member.text_id,
            "failure": member.failure}  # fmt: skip


def member_reasons(
    member: LiveMember, probes: Mapping[str, ReleaseProbe], ledger: list[Row], release: str
) -> list[Row]:
    """The same of a member that left; none where its release is not to be quarantined."""
    if release != "quarantined":
        return []
    found = _by_probe(member.cluster, probes.get(member.cluster))
    if member.exit_code is None and member.exit_signal is None:
        found.append(_not_seen(member))
    return [*found, *ledger][:MAX_SHOWN]


def open_release(
    context: Context, unit: Unit, attempt: LiveAttempt, part: int, members: Iterable[LiveMember], now: int,
    reasons: list[Row], seen: Row,
) -> None:  # fmt: skip
    """What the members of a part of an attempt held is in quarantine from `now` on."""
    quantities: dict[int, int] = {}
    clusters = set()
    for member in members:
        clusters.add(member.cluster)
        for a in member.allocations:
            quantities[a.device_id] = quantities.get(a.device_id, 0) + a.quantity
    _open(context, unit, part, attempt.workload_id, attempt.project, tuple(sorted(clusters)),
          list(quantities.items()), now, reasons, seen)  # fmt: skip


def _open(
    context: Context, unit: Unit, attempt_id: int, workload_id: int, project: str, clusters: tuple[str, ...],
    quantities: list[tuple[int, int]], now: int, reasons: list[Row], seen: Row,
) -> None:  # fmt: skip
    shown = _encode(seen).decode()
    case = LiveRelease(
        attempt_id, workload_id, project, clusters, now, shown, 1, NO_HEAD, quantities,
        next_at=now + PROBE_AFTER,
    )  # fmt: skip
    carrier = unit.insert(
        t.unproven_release,
        attempt_id=attempt_id,
        workload_id=workload_id,
        project=project,
        clusters_json=_encode(clusters).decode(),
        state="quarantined",
        quarantined_at=now,
        reasons_json=_encode(reasons).decode(),
        seen_json=shown,
        version=1,
    )
    detail = {"reasons": reasons, "residue": seen["residue"], "held": _held(context, case)}
    _leaf(unit, case, carrier, "release.quarantine", detail, before=None, reason="release-unconfirmed")
    context.state.releases[attempt_id] = case


def _held(context: Context, case: LiveRelease) -> list[Row]:
    return [{"device": render("device", d), "quantity": quantity} for d, quantity in case.quantities]


def _leaf(
    unit: Unit, case: LiveRelease, carrier: Row, action: str, detail: Row, *, before: int | None,
    reason: str | None = None, outcome: str = "allowed",
) -> None:  # fmt: skip
    draft = LeafDraft(
        action=action,
        object_kind="release",
        object_id=render("release", case.attempt_id),
        version_before=before,
        version_after=case.version,
        outcome=outcome,
        reason_code=reason,
        project=case.project,
        cluster=case.clusters[0] if case.clusters else None,
        extra={
            "attempt": render("attempt", case.attempt_id),
            "workload": render("workload", case.workload_id),
            **detail,
        },
    )

    def keep(head: Head) -> None:
        case.head = head

    unit.leaf(draft, carrier, case.head, keep)


class Quarantine:
    """Probes, answers operators, and closes what is proven or answered for."""

    def __init__(self, context: Context, flags: Flags) -> None:
        self._context = context
        self._flags = flags
        self._fences: dict[int, dict[str, Fenced]] = {}
        self._adopted = False

    # --- what comes in -------------------------------------------------------------------------------
    def asked(self, ids: Iterable[int]) -> None:
        """Others changed these releases: what an operator asked is in their rows."""
        context = self._context
        with context.store.read() as view:
            found = repository.releases_by_id(view, ids)
        for row in found:
            case = context.state.releases.get(row.attempt_id)
            if case is None or case.version >= row.version:
                continue
            case.version = row.version
            case.head = Head(row.head_n, row.head_seq, bytes(row.head_hash or b""))
            case.asked, case.asked_by, case.asked_at = row.asked, row.asked_by, row.asked_at
            case.asked_reason, case.told_at = row.asked_reason, 0

    def probed(self, cluster: str, attempt_id: int, probe: ReleaseProbe) -> None:
        """What the live probe found; one that looked before the question was asked does not answer it."""
        case = self._context.state.releases.get(attempt_id)
        if case is not None and probe.at >= case.told_at:
            case.probes[cluster] = probe

    def fenced(self, cluster: str, attempt_id: int, fenced: Fenced) -> None:
        """What a fence ended and took away."""
        if attempt_id in self._context.state.releases:
            self._fences.setdefault(attempt_id, {})[cluster] = fenced

    # --- one pass ------------------------------------------------------------------------------------
    def run(self) -> None:
        """Ask what is due, judge what was answered. A unit each: these are few, and each is a decision."""
        if not self._adopted:
            self._adopt()
        context = self._context
        for case in list(context.state.releases.values()):
            now = context.now()
            if case.asked == "force":
                self._close(case, now, "operator-confirmed", msgspec.json.decode(case.seen))
            elif case.asked is not None and case.told_at == 0:
                self._ask(case)
            elif set(case.clusters) <= case.probes.keys() and case.clusters:
                self._judge(case, now)
            elif case.asked is not None and now - (case.asked_at or now) > ANSWER_WITHIN:
                self._refuse(case, now, "release.unanswered")
            elif now >= case.next_at:
                self._again(case, now)

    def _ask(self, case: LiveRelease) -> None:
        case.probes.clear()
        case.told_at = self._context.store.now()
        name = (render("attempt", case.attempt_id),)
        for cluster in case.clusters:
            agent = self._context.agents.get(cluster)
            if agent is not None and case.asked == "fence":
                agent.send(Fence(name))
            if agent is not None:
                agent.send(Probe(name))

    def _again(self, case: LiveRelease, now: int) -> None:
        """Once more by itself: what was in the way may have gone."""
        case.next_at = now + min(PROBE_AFTER << min(case.tries, 20), PROBE_AT_LEAST)
        case.tries += 1
        name = (render("attempt", case.attempt_id),)
        for cluster in case.clusters:
            agent = self._context.agents.get(cluster)
            if agent is not None:
                agent.send(Probe(name))

    def _judge(self, case: LiveRelease, now: int) -> None:
        probes = [case.probes[cluster] for cluster in case.clusters]
        seen = seen_of(probes)
        case.probes.clear()
        if all(probe.free for probe in probes) and self._ledger_agrees(case):
            self._close(case, now, "proven", seen)
        elif case.asked == "fence" and now - case.told_at < FENCE_SETTLES:
            case.next_at = min(case.next_at, now + LOOK_AGAIN)
        elif case.asked == "fence":
            self._keep_out(case, now, seen)
        elif case.asked == "confirm":
            unsure = all(probe.free is not False for probe in probes)
            self._refuse(case, now, "release.not-observable" if unsure else "release.still-held", seen)
        elif seen["residue"] != msgspec.json.decode(case.seen)["residue"]:
            self._change(case, "release.seen", {"residue": seen["residue"]}, seen=seen)

    def _ledger_agrees(self, case: LiveRelease) -> bool:
        meter, holder = self._context.meter, render("attempt", case.attempt_id)
        return all(
            meter.quarantined(device, holder) == quantity
            for device, quantity in case.quantities
            if device in meter
        )

    # --- what comes of it ----------------------------------------------------------------------------
    def _change(
        self, case: LiveRelease, action: str, detail: Row, *, seen: Row | None = None,
        outcome: str = "allowed", reason: str | None = None, unit: Unit | None = None, **values: Any,
    ) -> None:  # fmt: skip
        context = self._context
        unit = unit or context.unit()
        if seen is not None:
            case.seen = _encode(seen).decode()
            values["seen_json"] = case.seen
        where = {"attempt_id": case.attempt_id, "version": case.version}
        carrier = unit.update(t.unproven_release, where, version=case.version + 1, **values)
        case.version += 1
        _leaf(unit, case, carrier, action, detail, before=case.version - 1, reason=reason, outcome=outcome)
        context.commit(unit, context.last_now)

    def _who(self, case: LiveRelease) -> Row:
        return {"asked": case.asked, "by": case.asked_by, "reason": case.asked_reason}

    def _answered(self, case: LiveRelease, now: int, code: str, **parts: object) -> Row:
        """Columns of an answer to what was asked: nothing is asked any more."""
        answer = {**self._who(case), "at": now, "code": code, **parts}
        case.asked = case.asked_by = case.asked_reason = case.asked_at = None
        return {
            "asked": None, "asked_by": None, "asked_reason": None, "asked_at": None,
            "answer_json": _encode(answer).decode(),
        }  # fmt: skip

    def _refuse(self, case: LiveRelease, now: int, code: str, seen: Row | None = None) -> None:
        detail = {**self._who(case), "residue": seen["residue"] if seen else []}
        values = self._answered(case, now, code)
        self._change(case, "release.kept", detail, seen=seen, outcome="refused", reason=code, **values)

    def _keep_out(self, case: LiveRelease, now: int, seen: Row) -> None:
        """Nothing can end what is left: its accelerators go out of service; of the rest what it held does."""
        devices = self._context.state.devices
        out = [d for d, _ in case.quantities if d in devices and devices[d].device_class in ACCELERATORS]
        unit = self._context.unit()
        who, why = case.asked_by or "control", case.asked_reason or "release-unconfirmed"
        self._flags.take_out(unit, out, case.attempt_id, who, why, now)
        done = self._done(case)
        shown = [render("device", device) for device in out]
        detail = {**self._who(case), "done": done, "residue": seen["residue"], "out_of_service": shown}
        case.fenced_at = now
        values = self._answered(case, now, "release.fenced", done=done, out_of_service=shown)
        self._change(case, "release.fenced", detail, seen=seen, unit=unit, fenced_at=now, **values)

    def _done(self, case: LiveRelease) -> Row:
        done: Row = {}
        for fenced in self._fences.pop(case.attempt_id, {}).values():
            for what, number in fenced.done:
                done[what] = done.get(what, 0) + number
        return done

    def _close(self, case: LiveRelease, now: int, state: str, seen: Row) -> None:
        context, holder = self._context, render("attempt", case.attempt_id)
        unit = context.unit()
        for device_id, quantity in case.quantities:
            where = {"device_id": device_id, "attempt_id": case.attempt_id}
            unit.update(t.quarantine, where, null=("t1",), t1=now)
            if device_id in context.state.devices:
                context.state.touch(device_id).quarantined -= quantity
            if device_id in context.meter:
                context.meter.unquarantine(device_id, holder, now)
        if case.fenced_at is not None:
            who, why = case.asked_by or "control", case.asked_reason or f"release-{state}"
            self._flags.bring_back(unit, self._only_its(case), who, why, now)
        probe = "free" if state == "proven" else "occupied" if seen["residue"] else "unknown"
        receipt = {
            "state": state,
            "quarantined_at": case.quarantined_at,
            "probed_at": seen["at"],
            "confirmed_at": now,
            "signals": {"control": "ended", "ledger": "closed", "probe": probe},
            "checks": seen["checks"],
            "residue": seen["residue"],
            "done": self._done(case),
        }
        closed_by = case.asked_by or "control"
        detail = {**self._who(case), "receipt": receipt}
        values = self._answered(case, now, f"release.{state}", done=receipt["done"])
        self._change(
            case, f"release.{state}", detail, seen=seen, unit=unit, state=state, closed_at=now,
            closed_by=closed_by, receipt_json=_encode(receipt).decode(), **values,
        )  # fmt: skip
        del context.state.releases[case.attempt_id]
        context.changed = True
        for cluster in case.clusters:
            agent = context.agents.get(cluster)
            if agent is not None:
                agent.send(Forget((holder,)))

    def _only_its(self, case: LiveRelease) -> set[int]:
        """Devices that no other fenced release keeps out of service."""
        others = [c for c in self._context.state.releases.values() if c is not case and c.fenced_at]
        kept = {device for other in others for device, _ in other.quantities}
        return {device for device, _ in case.quantities} - kept

    def _adopt(self) -> None:
        """Quarantines of a version that kept no releases become releases."""
        self._adopted = True
        context = self._context
        with context.store.read() as view:
            found = repository.quarantined_without_release(view)
        if not found:
            return
        by_attempt: dict[int, list[Row]] = {}
        for row in found:
            by_attempt.setdefault(row["attempt_id"], []).append(row)
        unit, now = context.unit(), context.now()
        for attempt_id, rows in by_attempt.items():
            clusters = (rows[0]["cluster"],) if rows[0]["cluster"] else ()
            quantities = [(row["device_id"], row["quantity"]) for row in rows]
            since = min(row["t0"] for row in rows)
            _open(context, unit, attempt_id, rows[0]["workload_id"], rows[0]["project"], clusters, quantities,
                  since, [{"code": "release.adopted"}], seen_of(()))  # fmt: skip
        context.commit(unit, now)
