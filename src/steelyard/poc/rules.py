"""The rules of S1: what a step wrote down → an outcome. Pure; a rule knows no candidate and no observer.

A claim of the candidate that is not as expected fails. One that is as expected passes only if the observer
that the step names saw the same; where it could not look the outcome says so (`missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from steelyard.poc.plan import Plan
from steelyard.poc.records import FailReason, Outcome, PendingReason, Said

Json = dict[str, Any]
Rule: TypeAlias = Callable[[Json, Plan, str], Outcome]
#: How a fact may be known.
_TRUSTED = ("declared", "detected", "verified", "simulated")


def _outcome(ok: bool | None, code: str, /, *, seen: Json | None = None, **params: Any) -> Outcome:
    """`poc.seen.CODE` is its sentence; `seen` tells whether its subject is simulated."""
    told = {key: _short(value) for key, value in params.items()}
    simulated = bool((seen or {}).get("simulated"))
    return Outcome(ok=ok, actual=Said(f"poc.seen.{code}", told), simulated=simulated)


def _short(value: Any) -> str | int | None:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value[:3]) or None
    return value if isinstance(value, (str, int)) or value is None else str(value)[:200]


def _with(outcome: Outcome, **changes: Any) -> Outcome:
    fields = {name: getattr(outcome, name) for name in outcome.__struct_fields__}
    return Outcome(**{**fields, **changes})


# ---- 1.1 to 1.5


def once(seen: Json, plan: Plan, _: str) -> Outcome:
    """Every resource in scope once, with class, cluster, node and owner; none beside."""
    wrong = {key: len(seen[key]) for key in ("missing", "extra", "double", "ownerless")}
    ok = not any(wrong.values())
    first = [name for key in wrong for name in seen[key]]
    return _outcome(ok, "once" if ok else "once-not", seen=seen, count=seen["count"], first=first, **wrong)


def marked(seen: Json, plan: Plan, _: str) -> Outcome:
    """What the plan knows to be simulated says so."""
    ok = not seen["unmarked"]
    return _outcome(ok, "marked" if ok else "marked-not", seen=seen, count=seen["marked"],
                    first=seen["unmarked"])  # fmt: skip


def registered(seen: Json, plan: Plan, _: str) -> Outcome:
    """Every resource has a record of its registration."""
    ok = not seen["unregistered"]
    return _outcome(ok, "registered" if ok else "registered-not", seen=seen, count=seen["count"],
                    first=seen["unregistered"])  # fmt: skip


def probe_equal(seen: Json, plan: Plan, part: str) -> Outcome:
    """The set and the capacities of a class in a cluster are those that its observer sees."""
    found = seen[part]
    wrong = {key: len(found[key]) for key in ("missing", "extra", "unequal")}
    first = [name for key in wrong for name in found[key]]
    ok = not any(wrong.values())
    if found["blind"]:
        blind = _outcome(True, "blind", seen=found, observer=found["observer"], why=found["why"])
        return _with(blind, missing=(found["observer"],))
    outcome = _outcome(
        ok, "probe-equal" if ok else "probe-differs", seen=found, count=found["seen"], first=first, **wrong
    )
    return _with(outcome, seen_by=(found["observer"],))


def provenance(seen: Json, plan: Plan, part: str) -> Outcome:
    """Model, driver and runtime are each known somehow; what no real run verified is pending."""
    models = seen[part]
    counted = part.rpartition(".")[2] in plan.supported
    if not models:
        return _with(_outcome(None, "nothing"), mandatory=counted)
    bare = [one["model"] for one in models if one["told"]["model"] not in _TRUSTED]
    told, simulated = models[0]["told"], any(one["simulated"] for one in models)
    values = {key: told[key] or "–" for key in ("model", "driver", "runtime")}
    names = [one["model"] for one in models]
    outcome = _outcome(not bare, "provenance", seen={"simulated": simulated}, **values, models=names)
    outcome = _with(outcome, mandatory=counted)
    if bare:
        return outcome
    if simulated:
        return _with(outcome, ok=None, reason=PendingReason.SIMULATED_DEVICE)
    if all(one["verified"] for one in models):
        return outcome
    known = told["driver"] and told["runtime"]
    unconfirmed = PendingReason.SUPPORT_MATRIX_UNCONFIRMED
    reason = unconfirmed if known else PendingReason.DRIVER_OR_FRAMEWORK_UNCONFIRMED
    return _with(outcome, ok=None, reason=reason)


def unknown_label_refused(seen: Json, plan: Plan, _: str) -> Outcome:
    """A key that nobody declared is refused in a declaration and in a request, by its name."""
    named = [_names(seen[door], seen["key"]) for door in ("declared", "asked")]
    code = "label-refused" if all(named) else "label-accepted"
    codes = [(seen[door] or {}).get("code", "–") for door in ("declared", "asked")]
    return _outcome(all(named), code, key=seen["key"], declared=codes[0], asked=codes[1])


def _names(refusal: Json | None, key: str) -> bool:
    reasons = [] if refusal is None else refusal["reasons"]
    return any(key in str(reason.get("params")) for reason in reasons)


def labels_kept(seen: Json, plan: Plan, _: str) -> Outcome:
    """Every label that stands on a node stands in the history, too, with who set it and since when."""
    if not seen["labels"]:
        return _outcome(None, "labels-none")
    ok = not seen["untold"]
    return _outcome(ok, "labels-kept" if ok else "labels-not", count=seen["labels"],
                    intervals=seen["intervals"], first=seen["untold"])  # fmt: skip


def lint_figures(seen: Json, plan: Plan, _: str) -> Outcome:
    """The lint gives whole numbers for too few, too many and unused labels."""
    figures = {
        key: value for key, value in (seen["lint"].get("figures") or {}).items() if isinstance(value, int)
    }
    ok = all(any(key.startswith(wanted) for key in figures) for wanted in ("too_few", "too_many", "unused"))
    text = ", ".join(f"{key}={value}" for key, value in sorted(figures.items()))
    return _outcome(ok, "lint", figures=text or "–")


def misfit_refused(seen: Json, plan: Plan, _: str) -> Outcome:
    """Refused at once, naming the label that fails; a record of it is kept."""
    label = next(iter(seen["labels"]))
    refusal, record = seen["refusal"], seen["record"]
    if refusal is None:
        return _outcome(False, "misfit-accepted", label=label)
    named = any((reason.get("params") or {}).get("label") == label for reason in refusal["reasons"])
    kept = record is not None and bool(record.get("reasons"))
    return _outcome(named and kept, "misfit", label=label, code=refusal["code"],
                    record=refusal["record"] or "–")  # fmt: skip


# ---- 1.6 and 1.7


def allocated(seen: Json, plan: Plan, device_class: str) -> Outcome:
    """The device names its holder within the bound; the observer sees the same task on the same device."""
    found = seen[device_class]
    device = found["device"]
    if device is None:
        return _outcome(False, "not-placed", state=found.get("state") or "refused")
    others = [one[1] for one in found["held"] if one[1] not in (device_class, *plan.requests)]
    ok = found["named"] and not others
    observed = found["observed"]
    outcome = _outcome(ok, "allocated" if ok else "allocated-not", seen=device, device=device["uid"],
                       quantity=found["quantity"], ms=found["ms"])  # fmt: skip
    outcome = _seen_by(outcome, observed, "alive")
    if ok and not outcome.missing and not (observed["alive"] and _sees(observed, found)):
        shown = [name for name, _ in observed["devices"]]
        denied = _outcome(False, "allocated-unseen", seen=device, device=device["uid"], seen_on=shown)
        return _with(denied, reason=FailReason.CONTRADICTED, seen_by=outcome.seen_by)
    return outcome


def _seen_by(outcome: Outcome, observed: Mapping[str, Any], what: str) -> Outcome:
    """The outcome with the observer that saw this, or that could not."""
    if observed[what] is None:
        return _with(outcome, missing=(observed["observer"],))
    return _with(outcome, seen_by=(observed["observer"],))


def _sees(observed: Json, found: Json) -> bool:
    """A process told of devices is told of this one; the cores of a machine have no name that is told."""
    if not observed["devices"]:
        return bool(found["device"]["device_class"] in ("cpu", "memory"))
    if found["device"]["device_class"] in ("cpu", "memory") and observed["observer"] == "process_probe":
        return True
    return any(name in found["names"] for name, _ in observed["devices"])


def free_falls_exactly(seen: Json, plan: Plan, device_class: str) -> Outcome:
    """What is free falls, and what is held rises, by exactly the quantity; the capacity stays."""
    found = seen[device_class]
    if found["sums"] is None:
        return _outcome(False, "not-placed", state=found.get("state") or "refused")
    before, after, quantity = found["sums"]["before"], found["sums"]["after"], found["quantity"]
    moved = (before["free"] - after["free"], after["held"] - before["held"])
    ok = moved == (quantity, quantity) and before["capacity"] == after["capacity"]
    return _outcome(ok, "exactly", seen=found["device"], quantity=quantity, free=moved[0], held=moved[1])


def returned(seen: Json, plan: Plan, device_class: str) -> Outcome:
    """The device is free again, the sums are those of before, the end and the release have times."""
    found = seen[device_class]
    device = found["device"]
    if device is None:
        return _outcome(False, "never-held")
    timed = all(found["times"].get(key) for key in ("ended", "release_confirmed"))
    ok = found["ended"] and found["returned"] and found["sums_back"] and timed
    outcome = _outcome(ok, "returned" if ok else "returned-not", seen=device, device=device["uid"],
                       ms=found["ms"])  # fmt: skip
    observed = found["observed"]
    if ok and observed["alive"]:
        outcome = _outcome(False, "returned-alive", seen=device, device=device["uid"])
    return _seen_by(outcome, observed, "alive")


# ---- 1.8 to 1.11


def cordoned(seen: Json, plan: Plan, _: str) -> Outcome:
    """Everything on the node is out of service as planned, with who and why, and comes back."""
    planned = all(one["availability"] == "unavailable.planned" for one in seen["resources"])
    flags = [flag for one in seen["resources"] for flag in one["flags"]]
    said = [flag for flag in flags if flag["by"] and flag["reason"] == seen["why"]]
    silent = [one["uid"] for one in seen["resources"] if one["reason"] is None]
    ok = seen["out"] and seen["back"] and planned and bool(said) and not silent
    return _outcome(ok, "cordoned" if ok else "cordoned-not", seen=seen, place=seen["place"],
                    by=said[0]["by"] if said else "–", ms=seen["ms"])  # fmt: skip


def broken(seen: Json, plan: Plan, _: str) -> Outcome:
    """Unavailable, unplanned, with a reason; the capacity of its class stays; the observer misses it."""
    device = seen["device"]
    unplanned = device["availability"] == "unavailable.unplanned"
    kept = seen["sums"]["before"]["capacity"] == seen["sums"]["after"]["capacity"]
    ok = seen["down"] and unplanned and bool(device["reason"]) and kept
    outcome = _outcome(ok, "broken" if ok else "broken-not", seen=device, device=device["uid"],
                       reason=device["reason"] or "–", ms=seen["ms"])  # fmt: skip
    return _paired(outcome, seen["observed"], there=False)


def told(seen: Json, plan: Plan, _: str) -> Outcome:
    """The candidate told of the change by itself."""
    ok = seen["heard"] is not None
    return _outcome(ok, "told" if ok else "told-not", seen=seen["device"], device=seen["device"]["uid"])


def mended(seen: Json, plan: Plan, _: str) -> Outcome:
    """Usable again, both times are kept, and a task beside it went on untouched."""
    device, beside = seen["device"], seen["bystander"]
    timed = any(
        row["availability"] == "unavailable.unplanned" and row["t0"] and row["t1"]
        for row in seen["availability"]
    )
    untouched = beside is not None and beside == {"state": "running", "attempt": 1}
    ok = seen["up"] and timed and untouched
    outcome = _outcome(ok, "mended" if ok else "mended-not", seen=device, device=device["uid"],
                       ms=seen["ms"])  # fmt: skip
    return _paired(outcome, seen["observed"], there=True)


def unowned(seen: Json, plan: Plan, _: str) -> Outcome:
    """Shown as occupied by nobody's process and not offered, until the process is gone."""
    device = seen["device"]
    ok = seen["taken"] and not device["requestable"] and bool(seen["processes"]) and seen["back"]
    outcome = _outcome(ok, "unowned" if ok else "unowned-not", seen=device, device=device["uid"],
                       ms=seen["ms"])  # fmt: skip
    outcome = _paired(outcome, seen["observed"], there=True)
    holders = seen["observed"].get("holders")
    if outcome.ok and holders is None:
        return _with(outcome, missing=(seen["observed"]["observer"],), seen_by=())
    if outcome.ok and not holders:
        unseen = Said("poc.seen.unowned-unseen", {"device": device["uid"]})
        return _with(outcome, ok=False, actual=unseen)
    return outcome


def _paired(outcome: Outcome, observed: Mapping[str, Any], *, there: bool) -> Outcome:
    """The outcome beside what the observer sees of the device."""
    outcome = _seen_by(outcome, observed, "there")
    if observed["there"] is not None and outcome.ok and observed["there"] is not there:
        return _with(outcome, ok=False, actual=Said("poc.seen.observer-differs", dict(outcome.actual.params)))
    return outcome


# ---- 1.12 to 1.14


def never_another_class(seen: Json, plan: Plan, _: str) -> Outcome:
    """Refused, or waiting with a reason; never given anything, and never running."""
    params = {"class_": seen["class"], "state": seen["state"] or "refused"}
    observed = seen["observed"]
    if seen["held"] or observed["alive"]:
        given = sorted({one[1] for one in seen["held"]})
        return _outcome(False, "another-class", seen=seen, given=given, **params)
    reasons = [str(reason.get("code")) for reason in seen["reasons"]]
    code = "kept-out" if reasons else "kept-out-silently"
    outcome = _outcome(bool(reasons), code, seen=seen, reasons=reasons, **params)
    return _seen_by(outcome, observed, "alive")


def past_equal(seen: Json, plan: Plan, _: str) -> Outcome:
    """What is told of then is what was seen then, resource by resource."""
    if seen["at"] is None:
        return _outcome(None, "past-moved")
    ok = not seen["differences"] and seen["count"] > 0
    first = [one["resource"] for one in seen["differences"]]
    return _outcome(ok, "past-equal" if ok else "past-differs", seen=seen, count=seen["count"],
                    different=len(seen["differences"]), first=first)  # fmt: skip


def sums_exact(seen: Json, plan: Plan, _: str) -> Outcome:
    """At every sample, of every resource and class, the parts sum to the capacity, which never falls."""
    wrong = [*seen["unequal"], *(f"{one['class']} ({one['step']})" for one in seen["fallen"])]
    ok = not wrong and seen["samples"] > 0
    code, count = "sums" if ok else "sums-not", seen["samples"]
    return _outcome(ok, code, seen=seen, samples=count, wrong=len(wrong), first=wrong)


def reasons_given(seen: Json, plan: Plan, _: str) -> Outcome:
    """At every sample nothing is out of service without a reason."""
    silent = seen["without_reason"]
    return _outcome(not silent, "reasons" if not silent else "reasons-not", seen=seen,
                    samples=seen["samples"], first=silent)  # fmt: skip


def fresh(seen: Json, plan: Plan, _: str) -> Outcome:
    """At every sample the observations that it rests on are younger than the bound, and their age is told."""
    oldest = seen["oldest"]
    ok = oldest is not None and not seen["ageless"] and oldest <= seen["bound"]
    return _outcome(ok, "fresh" if ok else "fresh-not", seen=seen, oldest=oldest, bound=seen["bound"],
                    ageless=seen["ageless"])  # fmt: skip


RULES: dict[str, Rule] = {
    "once": once,
    "marked": marked,
    "registered": registered,
    "probe-equal": probe_equal,
    "provenance": provenance,
    "unknown-label-refused": unknown_label_refused,
    "labels-kept": labels_kept,
    "lint-figures": lint_figures,
    "misfit-refused": misfit_refused,
    "allocated": allocated,
    "free-falls-exactly": free_falls_exactly,
    "returned": returned,
    "cordoned": cordoned,
    "broken": broken,
    "told": told,
    "mended": mended,
    "unowned": unowned,
    "never-another-class": never_another_class,
    "past-equal": past_equal,
    "sums-exact": sums_exact,
    "reasons-given": reasons_given,
    "fresh": fresh,
}
