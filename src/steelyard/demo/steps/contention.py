"""More is asked for than there is: refusals with their numbers, a wait with its holders, a preemption."""

from __future__ import annotations

import re
from typing import Any

from steelyard.demo.context import Step, Story, is_running, members, total
from steelyard.demo.door import every, get, wait
from steelyard.demo.expect import Expectation, Found, Json, Seen, found


# --- a wait -----------------------------------------------------------------------------------------------
def fill_accelerators(story: Story) -> None:
    """`pretrain` takes six of eight GPUs; `finetune` asks for four and has to wait for two."""
    story.submit("pretrain")
    story.submit("evaluate")
    story.submit("notebook")
    story.until("pretrain", is_running, "running")
    story.submit("finetune")

    def explained() -> Json | None:
        answer: Json = get(story.doors["mei"], f"/v1/workloads/{story.ids['finetune']}/explanation")
        reasons = answer["reasons"]
        said = reasons and reasons[0]["code"] not in ("pending-evaluation",)
        return answer if said or answer["decision"] not in ("waits", "can-start") else None

    story.seen["explanation"] = wait("finetune: explained", explained, 10.0)
    story.seen["explanation-open"] = get(story.admin, f"/v1/workloads/{story.ids['finetune']}/explanation")
    story.until("notebook", is_running, "running")
    story.seen["busy-nodes"] = every(story.admin, "/v1/inventory")
    story.seen["busy-summary"] = get(story.admin, "/v1/inventory/summary")


def wait_explained(seen: Seen) -> Found:
    """The binding reason names what is short and who holds it; the holders sum to the shortfall."""
    answer = seen["explanation"]
    reason = answer["reasons"][0]
    held = total(holder["amount"] for holder in reason["holders"])
    ok = answer["decision"] == "waits" and reason["short_by"] == 2000 == held
    return found(
        ok, "waits", reason=reason["code"], resource=reason["resource"], short_by=reason["short_by"],
        held=held, holders=len(reason["holders"]), position=answer["position"],
    )  # fmt: skip


def started_on_released(seen: Seen) -> Found:
    """What waited ran later, on devices that the one before had given back."""
    views = {view["name"]: view for view in seen["workloads"]}
    before, after = (_devices(views[name]) for name in ("pretrain", "finetune"))
    ended = views["pretrain"]["attempts"][-1]["times"]["release_confirmed"]
    placed = views["finetune"]["attempts"][-1]["times"]["placed"]
    ok = bool(before & after) and ended <= placed and views["finetune"]["outcome"] == "succeeded"
    return found(ok, "reused", devices=len(before & after), outcome=views["finetune"]["outcome"])


def _devices(view: Json) -> set[str]:
    return {
        device["uid"]
        for member in members(view)
        for device in member["devices"]
        if device["class"] in ("gpu", "npu")
    }


# --- refusals ---------------------------------------------------------------------------------------------
def ask_too_much(story: Story) -> None:
    """One GPU above the project's quota; sixteen NPUs where there are four."""
    for name in ("one-more", "too-many"):
        status, body = story.door_of(name).call("POST", "/v1/workloads", body=story.document(name))
        story.seen[f"refused-{name}"] = {"status": status, "body": body}
    story.seen["refusals"] = every(story.admin, "/v1/refusals")


def refused_over_quota(seen: Seen) -> Found:
    """Refused with limit, used, asked and short by."""
    reason = _refusal(seen, "one-more")
    numbers = (reason["limit"], reason["used"], reason["requested"], reason["short_by"])
    return found(
        numbers == (6000, 6000, 1000, 1000), "refused", reason=reason["code"], owner=reason["owner"],
        resource=reason["resource"], limit=numbers[0], used=numbers[1], requested=numbers[2],
        short_by=numbers[3],
    )  # fmt: skip


def refused_never_fits(seen: Seen) -> Found:
    """What could never start is refused at once and does not wait."""
    reason = _refusal(seen, "too-many")
    numbers = (reason["limit"], reason["requested"], reason["short_by"])
    ok = reason["code"].startswith("exceeds-") and numbers == (4000, 16000, 12000)
    return found(
        ok, "never-fits", reason=reason["code"], resource=reason["resource"], limit=numbers[0],
        requested=numbers[1], short_by=numbers[2],
    )  # fmt: skip


def _refusal(seen: Seen, name: str) -> Json:
    answer = seen[f"refused-{name}"]
    if answer["status"] != 422:
        raise ValueError(f"{name}: {answer['status']} {answer['body'].get('code', '')}")
    reason: Json = answer["body"]["reasons"][0]
    return reason


def refusals_recorded(seen: Seen) -> Found:
    """Each refusal is a record with all its reasons, although no workload came to be."""
    wanted = {seen[f"refused-{name}"]["body"]["refusal"] for name in ("one-more", "too-many")}
    records = [record for record in seen["refusals"] if record["id"] in wanted]
    complete = [record for record in records if record["complete"] and record["reasons"]]
    return found(len(complete) == len(wanted) == 2, "recorded", count=len(complete))


# --- a preemption -----------------------------------------------------------------------------------------
def preempt(story: Story) -> None:
    """A long training of low priority has to make room for urgent work, and goes on afterwards."""
    story.submit("train-long")
    story.until("train-long", _has_checkpoint(story), "a checkpoint", 30.0, 0.3)
    story.submit("urgent-batch")
    story.seen["urgent"] = story.until_finished("urgent-batch")
    resumed = story.until(
        "train-long", lambda view: view["attempt"] > 1 and view["phase"] == "running", "running again"
    )
    story.seen["resumed"] = resumed


def _has_checkpoint(story: Story) -> Any:
    def reached(view: Json) -> bool:
        return bool(view["phase"] == "running" and "loss " in story.log("train-long"))

    return reached


def preempted(seen: Seen) -> Found:
    """The record names preemptor, rule and lost time; the victim is queued again with its first time."""
    view, urgent = seen["resumed"], seen["urgent"]
    eviction, first = view["evictions"][0], view["attempts"][0]
    ok = (
        first["outcome"] == "preempted"
        and eviction["preemptor"] == urgent["id"]
        and eviction["lost_time"] is not None
        and view["submitted_at"] == first["times"]["submitted"]
        and urgent["outcome"] == "succeeded"
    )
    return found(
        ok, "preempted", outcome=first["outcome"], preemptor=eviction["preemptor_name"],
        lost=eviction["lost_time"], attempt=view["attempt"],
    )  # fmt: skip


def resumed(seen: Seen) -> Found:
    """The second attempt went on from the first one's checkpoint and finished."""
    view = next(view for view in seen["workloads"] if view["name"] == "train-long")
    at = re.search(r"resumed at step (\d+)", seen["resumed-log"])
    step = int(at[1]) if at else 0
    ok = step > 0 and view["outcome"] == "succeeded" and len(view["attempts"]) == 2
    return found(ok, "resumed", step=step, outcome=view["outcome"], attempts=len(view["attempts"]))


FILL = Step(
    "wait",
    fill_accelerators,
    (Expectation("wait-explained", ("E4", "E5", "P10"), wait_explained),),
)
REFUSE = Step(
    "refusal",
    ask_too_much,
    (
        Expectation("refused-over-quota", ("I6", "J1", "J2", "J4"), refused_over_quota),
        Expectation("refused-never-fits", ("E13", "F2"), refused_never_fits),
        Expectation("refusals-recorded", ("F14", "J3", "K2"), refusals_recorded),
    ),
)
PREEMPT = Step("preemption", preempt, (Expectation("preempted", ("E2", "E7", "E10", "E11"), preempted),))
#: Decided at the end, when everything has ended.
LATER = (
    Expectation("resumed", ("D4", "D15", "E11"), resumed),
    Expectation("started-on-released", ("G4", "G9"), started_on_released),
)
