"""Steps of S1 that change something: tasks on devices, a cordon, a fault, a stranger, the wrong class.

Each step waits for what is expected at most as long as the plan's bound for changes, keeps its evidence and
writes down what it saw; it judges nothing. What a step began is ended by it or by its counterpart.
"""

from __future__ import annotations

from typing import Any

import msgspec

from steelyard.poc import hands
from steelyard.poc.candidate import PARTS, ClassSum, Refusal, Resource, TaskSpec, TaskState
from steelyard.poc.observers.observed import Held
from steelyard.poc.plan import Place, Task
from steelyard.poc.steps_look import standing
from steelyard.poc.trial import Json, Trial, brief


def start(trial: Trial) -> Json:
    """1.6: a task of each class; the device that it gets, by the candidate and by the observers."""
    trial.inventory()
    found = {task.device_class: _start(trial, task) for task in trial.plan.tasks}
    trial.keep("start.json", found)
    return found


def end(trial: Trial) -> Json:
    """1.7: the same tasks end."""
    begun = trial.seen.get("1.6") or {}
    # the last one first, so that each finds the sums as they were before it
    found = {task: _end(trial, begun[task]) for task in reversed(begun)}
    trial.keep("end.json", found)
    return found


def _spec(trial: Trial, name: str, task: Task) -> TaskSpec:
    mark, simulations = f"{trial.mark}-{name}", trial.plan.observers.simulations
    return TaskSpec(
        name=mark, namespace=trial.plan.namespace, kind=trial.plan.kind,
        command=("/bin/sh", "-c", "sleep 3600; :", mark),
        requests={**trial.plan.requests, task.device_class: task.quantity}, clusters=task.clusters,
        simulated=bool(task.clusters) and all(name in simulations for name in task.clusters),
    )  # fmt: skip


def _start(trial: Trial, task: Task) -> Json:
    before, spec = trial.sums(), _spec(trial, task.device_class, task)
    asked = trial.submit(spec)
    found: Json = {"mark": spec.name, "task": None, "device": None, "sums": None, "observed": None}
    if isinstance(asked, Refusal):
        return {**found, "refusal": msgspec.to_builtins(asked)}
    found["task"] = asked
    running, _ = trial.until(lambda: _running(trial.candidate.task(asked)))
    state = trial.candidate.task(asked) if running is None else running
    found["state"], found["reasons"] = state.state, list(state.reasons)
    held = [one for one in state.holds if one[1] == task.device_class]
    found["held"] = [list(one) for one in state.holds]
    if not held:
        return found
    device, quantity = held[0][0], sum(one[2] for one in held)
    shown, took = trial.until(lambda: _holding(trial.inventory(), device, asked, held[0][2]))
    resource = trial.candidate.resource(device)
    after, _ = trial.until(lambda: _moved(trial.sums(), before, resource, quantity))
    found |= {"device": brief(resource), "quantity": quantity, "named": shown is not None, "ms": took}
    found["names"] = [resource.uid, *(str(f["value"]) for f in resource.raw.get("facts", ()))]
    found["sums"] = _both(before, after or trial.sums(), resource)
    found["observed"] = _observed(trial, spec.name, resource.cluster, alive=True)
    return found


def _running(state: TaskState) -> TaskState | None:
    return state if state.state in ("running", "ended") else None


def _holding(resources: list[Resource], device: str, task: str, quantity: int) -> Resource | None:
    """The device in the inventory once that names the task as its holder. The whole list is asked for: a page
    of the device alone may know more than the list does."""
    one = next((one for one in resources if one.id == device), None)
    return one if one is not None and one.held_by(task) == quantity else None


Sums = dict[tuple[str, str], ClassSum]


def _moved(now: Sums, before: Sums, resource: Resource, quantity: int) -> Sums | None:
    key = (resource.cluster, resource.device_class)
    return now if now[key].part("free") == before[key].part("free") - quantity else None


def _both(before: Sums, after: Sums, resource: Resource) -> Json:
    key = (resource.cluster, resource.device_class)
    shown = {
        name: {"capacity": sums[key].capacity, **dict(zip(PARTS, sums[key].parts, strict=True))}
        for name, sums in (("before", before), ("after", after))
    }
    return {"cluster": key[0], "class": key[1], **shown}


def _observed(trial: Trial, mark: str, cluster: str, *, alive: bool) -> Json:
    """What the observers see of a task, once it is as expected or the bound is reached."""

    def look() -> Held | None:
        held = trial.eyes.task(mark, cluster)
        return held if held.alive in (alive, None) else None

    held, _ = trial.until(look)
    found: Json = msgspec.to_builtins(held or trial.eyes.task(mark, cluster))
    return found


def _end(trial: Trial, begun: Json) -> Json:
    if not begun.get("device"):
        return {"task": begun.get("task"), "device": None}
    task, device = begun["task"], begun["device"]
    before = begun["sums"]["before"]
    trial.candidate.end(task)
    ended, took = trial.until(lambda: _ended(trial.candidate.task(task)))
    free, waited = trial.until(lambda: _let_go(trial.candidate.resource(device["id"]), task))
    key = (begun["sums"]["cluster"], begun["sums"]["class"])
    back, _ = trial.until(lambda: _as_before(trial.sums()[key], before))
    page = trial.candidate.resource(device["id"])
    return {
        "task": task, "ended": ended is not None, "device": brief(free or page), "returned": free is not None,
        "sums_back": back is not None, "ms": took + waited,
        "times": dict(ended.times) if ended is not None else {},
        "observed": _observed(trial, begun["mark"], device["cluster"], alive=False),
    }  # fmt: skip


def _ended(state: TaskState) -> TaskState | None:
    return state if state.state == "ended" else None


def _let_go(resource: Resource, task: str) -> Resource | None:
    return resource if resource.held_by(task) == 0 and resource.part("free") > 0 else None


def _as_before(now: ClassSum, before: Json) -> bool | None:
    return True if all(now.part(part) == before[part] for part in PARTS) else None


def cordon(trial: Trial) -> Json:
    """1.8: a node out of service, with reason; how everything stands then is kept for 1.13."""
    place, why = trial.plan.cordon, f"trial {trial.mark}"
    on = f"{place.cluster}/{place.name}"
    trial.candidate.cordon(on, why)
    try:
        resources, took = trial.until(lambda: _all_out(trial.inventory(), place))
        at, _ = trial.candidate.sums()
        still = trial.inventory()
    finally:
        trial.candidate.uncordon(on, f"{why} ended")
    mine = [one for one in still if _is_on(one, place)]
    back, _ = trial.until(lambda: _all_back(trial.inventory(), place))
    same = resources is not None and standing(resources) == standing(still)
    found = {
        "place": on, "why": why, "ms": took, "out": resources is not None, "back": back is not None,
        "resources": [brief(one) for one in mine],
        "at": at if same else None, "simulated": any(one.simulated for one in mine),
    }  # fmt: skip
    trial.keep("cordon.json", found)
    return {**found, "standing": standing(still)}


def _is_on(resource: Resource, place: Place) -> bool:
    return (resource.cluster, resource.node) == (place.cluster, place.name)


def _all_out(resources: list[Resource], place: Place) -> list[Resource] | None:
    mine = [one for one in resources if _is_on(one, place) and not one.divided]
    return resources if mine and all(one.part("free") == 0 and one.reason for one in mine) else None


def _all_back(resources: list[Resource], place: Place) -> bool | None:
    mine = [one for one in resources if _is_on(one, place) and not one.divided]
    return True if all(one.reason is None for one in mine) else None


def break_device(trial: Trial) -> Json:
    """1.9: a device goes away, beside a task that has nothing to do with it."""
    fault, before = trial.plan.fault, trial.sums()
    resource = _named(trial, fault.device)
    cpu = next((t for t in trial.plan.tasks if t.device_class == "cpu"), trial.plan.tasks[0])
    asked = trial.submit(_spec(trial, "bystander", cpu))
    bystander = None if isinstance(asked, Refusal) else asked
    if bystander is not None:
        trial.until(lambda: _running(trial.candidate.task(bystander)))
    watch = trial.candidate.watch()
    try:
        trial.sleep(trial.plan.bounds.poll_ms / 1000)
        hands.do(fault.inject, trial.candidate, fault.device.cluster)
        trial.later.callback(_clear, trial)
        down, took = trial.until(lambda: _unavailable(trial.candidate.resource(resource.id)), health=True)
        heard, _ = trial.until(lambda: watch.heard(resource.id))
    finally:
        watch.close()
    after = trial.sums()
    trial.inventory()
    page = down or trial.candidate.resource(resource.id)
    found = {
        "device": brief(page), "down": down is not None, "ms": took, "heard": heard, "bystander": bystander,
        "attempt": None if bystander is None else trial.candidate.task(bystander).raw["attempt"],
        "availability": page.raw.get("availability_history", []), "sums": _both(before, after, resource),
        "observed": _probe(trial, resource),
    }  # fmt: skip
    trial.keep("break.json", found)
    return found


def _clear(trial: Trial) -> None:
    """Undoes the fault, once."""
    if trial.seen.setdefault("cleared", False):
        return
    trial.seen["cleared"] = True
    fault = trial.plan.fault
    hands.undo(fault.inject, trial.candidate, fault.device.cluster)
    hands.do(fault.clear, trial.candidate, fault.device.cluster)


def mend(trial: Trial) -> Json:
    """1.10: the fault is undone; the device comes back, and nothing else was touched."""
    fault, broken = trial.plan.fault, trial.seen.get("1.9") or {}
    resource = _named(trial, fault.device)
    _clear(trial)
    up, took = trial.until(lambda: _usable(trial.candidate.resource(resource.id)), health=True)
    page = up or trial.candidate.resource(resource.id)
    state = None
    if broken.get("bystander"):
        state = trial.candidate.task(broken["bystander"])
        trial.candidate.end(broken["bystander"])
        trial.until(lambda: _ended(trial.candidate.task(broken["bystander"])))
    found = {
        "device": brief(page), "up": up is not None, "ms": took,
        "availability": page.raw.get("availability_history", []), "observed": _probe(trial, resource),
        "bystander": None if state is None else {"state": state.state, "attempt": state.raw["attempt"]},
    }  # fmt: skip
    trial.keep("mend.json", found)
    return found


def occupy(trial: Trial) -> Json:
    """1.11: a process that is nobody's comes onto a device, and leaves it."""
    plan = trial.plan.foreign
    resource = _named(trial, plan.device)
    with hands.doing(plan.occupy, trial.candidate, plan.device.cluster):
        taken, took = trial.until(lambda: _taken(trial.candidate.resource(resource.id)), health=True)
        page = taken or trial.candidate.resource(resource.id)
        observed = _probe(trial, resource)
        trial.inventory()
    back, _ = trial.until(lambda: _usable(trial.candidate.resource(resource.id)), health=True)
    found = {
        "device": brief(page), "taken": taken is not None, "ms": took, "back": back is not None,
        "processes": page.raw.get("processes", []), "observed": observed,
    }  # fmt: skip
    trial.keep("occupy.json", found)
    return found


def _named(trial: Trial, place: Place) -> Resource:
    return trial.candidate.resource(f"{place.cluster}/{place.name}")


def _unavailable(resource: Resource) -> Resource | None:
    return resource if resource.part("unavailable") > 0 else None


def _usable(resource: Resource) -> Resource | None:
    return resource if resource.part("free") == resource.capacity else None


def _taken(resource: Resource) -> Resource | None:
    return resource if resource.reason == "occupied-unowned" and not resource.requestable else None


def _probe(trial: Trial, resource: Resource) -> Json:
    """What the observer of its class sees of a device: whether it is there, and who is on it."""
    key = (resource.cluster, resource.device_class)
    group = next((g for g in trial.plan.scope if (g.cluster, g.device_class) == key), None)
    if group is None:
        return {"there": None, "observer": "device_probe", "why": "not in scope"}
    seen = trial.eyes.look(group.observer, resource.cluster, resource.device_class)
    if seen.devices is None:
        return {"there": None, "observer": seen.observer, "why": seen.why}
    names = {resource.uid, *(str(f["value"]) for f in resource.raw.get("facts", ()) if f["key"] == "pci")}
    one = next((one for one in seen.devices if names & set(one.names)), None)
    holders: Any = None if one is None or one.holders is None else list(one.holders)
    return {"there": one is not None, "holders": holders, "observer": seen.observer, "source": seen.source}


def wrong_class(trial: Trial) -> Json:
    """1.12: a class is asked for where there is only another."""
    task = trial.plan.wrong_class
    spec = _spec(trial, "wrong-class", task)
    asked = trial.submit(spec)
    cluster = task.clusters[0] if task.clusters else ""
    found: Json = {"mark": spec.name, "class": task.device_class, "refusal": None, "state": None}
    found["simulated"] = cluster in trial.plan.observers.simulations
    if isinstance(asked, Refusal):
        found |= {"refusal": msgspec.to_builtins(asked), "held": [], "reasons": list(asked.reasons)}
        found["observed"] = msgspec.to_builtins(trial.eyes.task(spec.name, cluster))
    else:
        placed, _ = trial.until(lambda: _placed(trial.candidate.task(asked)))
        state = placed or trial.candidate.task(asked)
        found["observed"] = msgspec.to_builtins(trial.eyes.task(spec.name, cluster))
        found |= {"state": state.state, "held": [list(one) for one in state.holds]}
        found["reasons"] = list(state.reasons)
        trial.candidate.end(asked)
        trial.until(lambda: _ended(trial.candidate.task(asked)))
    trial.keep("wrong-class.json", found)
    return found


def _placed(state: TaskState) -> TaskState | None:
    return state if state.holds else None
