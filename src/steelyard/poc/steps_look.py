"""Steps of S1 that look and ask: discovery, the probe, provenance, labels, the past, the sums.

Each step keeps its evidence and writes down what it saw; it judges nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from steelyard.poc.candidate import PARTS, Refusal, Resource, TaskSpec
from steelyard.poc.observers.observed import Found, Seen
from steelyard.poc.trial import Json, Trial, brief

_UNKNOWN = "poc.example/no-such-label"
_NAMED_BY = ("pci", "uuid")
_FACTS = ("model", "driver", "runtime")
_DIFFERENCES = 200


def register(trial: Trial) -> Json:
    """1.1: everything there is, and what became of each thing that was found."""
    resources, registrations = trial.inventory(), trial.candidate.registrations()
    trial.keep("before.json", [brief(one) for one in resources])
    trial.keep("registrations.json", registrations)
    counts = Counter((r.cluster, r.node, r.device_class) for r in resources if not r.divided)
    keys = Counter((r.cluster, r.uid) for r in resources)
    wanted = {
        (group.cluster, node, group.device_class): group.count
        for group in trial.plan.scope
        for node in group.node_names()
    }
    marked = {
        (group.cluster, node, group.device_class)
        for group in trial.plan.scope
        if group.simulated
        for node in group.node_names()
    }
    outcomes = {(one["cluster"], one["uid"]) for one in registrations if one["outcome"] == "registered"}
    return {
        "count": len(resources),
        "missing": [_joined(k) for k, n in wanted.items() if counts[k] < n][:_DIFFERENCES],
        "extra": [_joined(k) for k, n in counts.items() if n > wanted.get(k, 0)][:_DIFFERENCES],
        "double": [_joined(k) for k, n in keys.items() if n > 1][:_DIFFERENCES],
        "ownerless": [r.uid for r in resources if not r.owner and not r.divided][:_DIFFERENCES],
        "unmarked": [
            _joined((r.cluster, r.uid))
            for r in resources
            if not r.simulated and (r.cluster, r.node, r.device_class) in marked
        ][:_DIFFERENCES],
        "marked": sum(r.simulated for r in resources),
        "unregistered": [_joined(k) for k in keys if k not in outcomes][:_DIFFERENCES],
        "simulated": any(r.simulated for r in resources),
        "capacity": {_joined(key): one.capacity for key, one in trial.sums().items()},
    }


def _joined(key: tuple[str, ...]) -> str:
    return "/".join(key)


def compare(trial: Trial) -> Json:
    """1.2: the candidate's set and capacities beside those of the observers, by cluster and class."""
    resources = trial.inventory()
    probes: dict[str, Seen] = {}
    found: dict[str, Json] = {}
    for group in trial.plan.scope:
        key = f"{group.cluster}.{group.device_class}"
        if key in found:
            continue
        seen = probes[key] = trial.eyes.look(group.observer, group.cluster, group.device_class)
        mine = [
            one
            for one in resources
            if (one.cluster, one.device_class) == (group.cluster, group.device_class) and not one.divided
        ]
        simulated = group.simulated or any(one.simulated for one in mine)
        found[key] = {
            "observer": seen.observer, "blind": seen.devices is None, "why": seen.why, "simulated": simulated,
            "seen": len(seen.devices or ()), "missing": [], "extra": [], "unequal": [],
        }  # fmt: skip
        if seen.devices is not None:
            _match(trial, found[key], mine, seen)
    trial.keep("probe.json", probes)
    trial.keep("diff.json", found)
    return found


def _match(trial: Trial, found: Json, mine: list[Resource], seen: Seen) -> None:
    """Puts each resource beside the device that the observer knows under one of its names."""
    devices = {name: one for one in seen.devices or () for name in one.names}
    matched: set[int] = set()
    for resource in mine:
        # a simulated device's name is its own; others may be known by their place on the bus
        facts = {} if seen.observer == "simulation" else _facts(trial.candidate.resource(resource.id))
        names = [resource.uid, *(str(facts[key]) for key in _NAMED_BY if key in facts)]
        if seen.observer == "kernel":
            names.append(resource.device_class)  # a machine's cores and memory have no name of their own
        one = next((devices[name] for name in names if name in devices), None)
        if one is None:
            if resource.reason != "missing":
                found["extra"].append(resource.uid)
            continue
        matched.add(id(one))
        kept = facts.get("reserved", 0)
        if not _equal(resource, one, kept if isinstance(kept, int) else 0):
            found["unequal"].append(resource.uid)
    found["missing"] = [one.names[0] for one in seen.devices or () if id(one) not in matched]


def _equal(resource: Resource, one: Found, kept: int) -> bool:
    """Capacity and device memory, as far as the observer knows them. `kept`: for the machine itself."""
    if one.capacity is not None and one.capacity != resource.capacity + kept:
        return False
    return one.memory is None or one.memory == resource.raw["memory"]


def _facts(resource: Resource) -> Json:
    return {fact["key"]: fact["value"] for fact in resource.raw.get("facts", ()) if fact["valid_to"] is None}


def provenance(trial: Trial) -> Json:
    """1.3: how model, driver and runtime of each model in scope are known."""
    verified = trial.candidate.verified()
    models = {str(record.get("model")) for record in verified}
    one_of: dict[tuple[str, str, str], Resource] = {}
    for resource in trial.inventory():
        one_of.setdefault((resource.cluster, resource.device_class, resource.model), resource)
    found: dict[str, list[Json]] = {}
    for (cluster, device_class, model), resource in one_of.items():
        page = trial.candidate.resource(resource.id).raw
        facts = {f["key"]: f for f in page.get("facts", ()) if f["valid_to"] is None}
        told = {key: None if key not in facts else facts[key]["provenance"] for key in _FACTS}
        found.setdefault(f"{cluster}.{device_class}", []).append(
            {"model": model, "resource": resource.id, "told": told, "simulated": resource.simulated,
             "verified": model in models, "facts": [facts[key] for key in _FACTS if key in facts]}
        )  # fmt: skip
    trial.keep("verifications.json", verified)
    trial.keep("provenance.json", found)
    scope = dict.fromkeys(f"{group.cluster}.{group.device_class}" for group in trial.plan.scope)
    return {key: found.get(key, []) for key in scope}


def label(trial: Trial) -> Json:
    """1.4: a label that nobody declared, in a declaration and in a request; the lint."""
    declared = trial.candidate.declare_label(_UNKNOWN, trial.plan.scope[0].cluster)
    asked = trial.submit(_task(trial, "label", {}, {_UNKNOWN: "x"}))
    if isinstance(asked, str):
        trial.candidate.end(asked)
    lint, (standing, history) = trial.candidate.lint(), trial.candidate.labels()
    open_now = {_label_key(one) for one in history if one["until"] is None and one["set_by"]}
    found = {
        "key": _UNKNOWN, "declared": _told(declared), "asked": _told(asked), "lint": lint,
        "labels": len(standing), "intervals": len(history),
        "untold": ["/".join(key) for key in map(_label_key, standing) if key not in open_now][:_DIFFERENCES],
    }  # fmt: skip
    trial.keep("labels.json", found)
    return found


def _label_key(label: Json) -> tuple[str, ...]:
    return label["cluster"], label["node"], label["key"], label["value"]


def misfit(trial: Trial) -> Json:
    """1.5: a task that no node's labels fit."""
    asked = trial.submit(_task(trial, "misfit", {}, trial.plan.misfit))
    record = None
    if isinstance(asked, str):
        trial.candidate.end(asked)
    elif asked.record is not None:
        record = trial.candidate.refusal(asked.record)
    found = {"labels": trial.plan.misfit, "refusal": _told(asked), "record": record}
    trial.keep("refusal.json", found)
    return found


def _task(trial: Trial, name: str, requests: Json, labels: dict[str, str]) -> TaskSpec:
    mark = f"{trial.mark}-{name}"
    return TaskSpec(
        name=mark, namespace=trial.plan.namespace, kind=trial.plan.kind,
        command=("/bin/sh", "-c", "sleep 3600; :", mark), requests={**trial.plan.requests, **requests},
        labels=labels,
    )  # fmt: skip


def _told(answer: str | Refusal | None) -> Json | None:
    return msgspec.to_builtins(answer) if isinstance(answer, Refusal) else None


def past(trial: Trial) -> Json:
    """1.13: the inventory as it is told to have been in 1.8, beside what was seen then."""
    then = trial.seen.get("1.8") or {}
    if then.get("at") is None:
        return {"at": None, "differences": [], "count": 0}
    told = {one.id: _standing(one) for one in trial.candidate.inventory(then["at"])}
    seen: dict[str, Any] = then["standing"]
    different = sorted(key for key in {*told, *seen} if told.get(key) != seen.get(key))
    found = {
        "at": then["at"], "count": len(told), "simulated": _is_simulated(trial),
        "differences": [
            {"resource": key, "seen": seen.get(key), "told": told.get(key)} for key in different
        ][:_DIFFERENCES],
    }  # fmt: skip
    trial.keep("at.json", {**found, "told": told})
    return found


def _is_simulated(trial: Trial) -> bool:
    """Whether anything in scope is simulated: what rests on all of it does so, too."""
    return any(group.simulated for group in trial.plan.scope)


def _standing(resource: Resource) -> Json:
    """What of a resource has to be the same when it is looked back at."""
    holders = sorted((one["workload"] or "", one["quantity"]) for one in resource.raw["holders"])
    return {
        "uid": resource.uid, "capacity": resource.capacity, "state": resource.state,
        "reason": resource.reason, "pool": resource.pool, **dict(zip(PARTS, resource.parts, strict=True)),
        "holders": [list(one) for one in holders],
    }  # fmt: skip


def standing(resources: list[Resource]) -> dict[str, Json]:
    """By resource what has to be the same when it is looked back at."""
    return {one.id: _standing(one) for one in resources}


def sums(trial: Trial) -> Json:
    """1.14: every sample of the whole run."""
    trial.inventory()
    trial.sums()
    first = (trial.seen.get("1.1") or {}).get("capacity", {})
    fallen = [
        {"step": sample.step, "class": key, "before": first[key], "now": amount}
        for sample in trial.samples
        for key, amount in sample.capacity.items()
        if key in first and amount != first[key]
    ]
    found = {
        "samples": len(trial.samples),
        "unequal": [s for sample in trial.samples for s in sample.unequal][:_DIFFERENCES],
        "without_reason": [s for sample in trial.samples for s in sample.without_reason][:_DIFFERENCES],
        "fallen": fallen[:_DIFFERENCES],
        "ageless": sum(sample.oldest is None for sample in trial.samples),
        "oldest": max((s.oldest for s in trial.samples if s.oldest is not None), default=None),
        "bound": trial.plan.bounds.staleness_ms, "simulated": _is_simulated(trial),
    }  # fmt: skip
    trial.keep("conservation.json", found)
    return found
