"""The rest of the story: a service that scales while batch fills its pool, an array, an idle experiment, an
evaluation, a process that will not end, a node that is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steelyard.demo import documents
from steelyard.demo.context import SERVING, Step, Story, is_running, members
from steelyard.demo.door import get, post, wait
from steelyard.demo.expect import Expectation, Found, Json, Seen, found

SERVICE, ARRAY, IDLE, EVALUATION, ESCAPEE, LOST = (
    "answer", "sweep", "idle-notebook", "evaluate-spiral", "escapee", "survivor",
)  # fmt: skip
#: Devices of the serving cluster, and how many of them the service is guaranteed, in milli-devices.
CAPACITY, GUARANTEED = 4000, 2000


def begin(story: Story) -> None:
    """A service of one replica with a second one guaranteed; then an array that would take everything; an
    experiment that does nothing, and a process that will not end."""
    story.submit(SERVICE)
    story.until(SERVICE, lambda view: is_running(view) and _replicas(view)["kept"] == 1, "headroom kept")
    for name in (ARRAY, IDLE, ESCAPEE):
        story.submit(name)


def _replicas(view: Json) -> dict[str, int]:
    replicas: dict[str, int] = view["group"]["replicas"]
    return replicas


def scale(story: Story) -> None:
    """1 → 2 → 1 while the array takes all that it may."""
    story.until(ARRAY, lambda view: view["group"]["counts"].get("running", 0) >= 2, "filling the pool")
    story.seen["waiting-task"] = _waiting_task(story)
    for number in (2, 1):
        post(story.door_of(SERVICE), f"/v1/workloads/{story.ids[SERVICE]}/scale", {"replicas": number})
        story.seen[f"scaled-{number}"] = story.until(
            SERVICE, _has_scaled(number), f"scaled to {number}", 20.0, 0.05
        )
    post(story.door_of(ESCAPEE), f"/v1/workloads/{story.ids[ESCAPEE]}/cancel")


def _waiting_task(story: Story) -> Json:
    """A task of the array that waits, with its reasons."""

    def look() -> Json | None:
        for task in story.view(ARRAY)["group_members"]:
            if task["phase"] == "queued":
                view: Json = get(story.admin, f"/v1/workloads/{task['id']}")
                if view["reasons"] and view["reasons"][0]["code"] != "pending-evaluation":
                    return view
        return None

    return wait("a task that waits", look, 10.0)


def _has_scaled(number: int) -> Callable[[Json], bool]:
    def reached(view: Json) -> bool:
        replicas = _replicas(view)
        return replicas["used"] == number and replicas["kept"] == 2 - number

    return reached


def evaluate(story: Story) -> None:
    """Evaluates the model that the training left, by its digest."""
    folder = story.seen["model-folder"]
    values = {
        "MODEL": f"{folder}/model.npz", "MODEL_WORKLOAD": story.ids["train-spiral"],
        "MODEL_DIGEST": "sha256:" + story.seen["model-digest"],
    }  # fmt: skip
    story.submit(EVALUATION, **values)


def lose_node(story: Story) -> None:
    """A node goes away under a workload, which goes on elsewhere."""
    story.until(ARRAY, lambda view: view["group"]["done"] == view["group"]["completions"], "all done", 60.0)
    story.submit(LOST)
    node = members(story.until(LOST, is_running, "running"))[0]["node"]
    document = documents.one("Cluster", SERVING)
    document["spec"]["simulation"]["suffer"].append(
        {"fault": "node-lost", "match": {"node": node}, "for": "4s", "gone": True}
    )
    story.apply(document)
    story.seen["survived"] = story.until_finished(LOST, 60.0)
    story.seen["lost-node"] = node


def finish(story: Story) -> None:
    """Reads how each of them ended."""
    for name in (IDLE, EVALUATION, ESCAPEE):
        story.seen[name] = story.until_finished(name, 60.0)
    story.seen["array"] = story.view(ARRAY)
    story.seen["tasks"] = [
        get(story.admin, f"/v1/workloads/{task['id']}") for task in story.seen["array"]["group_members"]
    ]
    story.seen["model-page"] = story.view("train-spiral")


# --- what is expected ------------------------------------------------------------------------------------
def scaled(seen: Seen) -> Found:
    """The replica started where its place was kept, while others waited; scaling down kept it again."""
    up, down = seen["scaled-2"], seen["scaled-1"]
    second = next(m for m in up["group_members"] if m["index"] == 1)
    ok = second["phase"] in ("starting", "running") and _replicas(down)["kept"] == 1
    ok = ok and up["group"]["quantities"]["guaranteed"]["other"] == GUARANTEED
    return found(ok, "scaled", used=_replicas(up)["used"], kept=_replicas(down)["kept"])


def never_squeezed(seen: Seen) -> Found:
    """At no instant did the array hold more than what the service is not guaranteed, by the ledger; and
    nobody was stopped for headroom that was kept."""
    spans = list(_held(seen["tasks"]))
    borders = {t0 for _, t0, _ in spans}
    most = max((sum(q for q, t0, t1 in spans if t0 <= at < t1) for at in borders), default=0)
    waits = seen["waiting-task"]["reasons"][0]
    ok = bool(spans) and most == CAPACITY - GUARANTEED and bool(waits["holders"])
    ok = ok and not any(task["evictions"] for task in seen["tasks"])
    return found(ok, "squeezed", most=most // 1000, capacity=CAPACITY // 1000, reason=waits["code"])


def _held(views: Iterable[Json]) -> Iterable[tuple[int, int, int]]:
    """(quantity, t0, t1) of every device that was held."""
    for view in views:
        for attempt in view["attempts"]:
            for member in attempt["members"]:
                for device in member["devices"]:
                    if device["class"] == "other":
                        yield device["quantity"], device["t0"], device["t1"]


def array_done(seen: Seen) -> Found:
    """Every task of the array ran once, and succeeded."""
    group, tasks = seen["array"]["group"], seen["tasks"]
    indices = sorted(task["group"]["index"] for task in tasks)
    ok = group["done"] == group["completions"] == len(tasks) and group["failed"] == 0
    return found(ok and indices == list(range(len(tasks))), "array", done=group["done"], all=len(tasks))


def idle_reclaimed(seen: Seen) -> Found:
    """The idle experiment was reclaimed, with the reason in its record, and the release proven."""
    view = seen[IDLE]
    receipt = view["attempts"][-1]["receipt"] or {}
    ok = view["outcome"] == "reclaimed" and view["verdict"]["code"] == "idle-limit"
    ok = ok and receipt.get("state") == "confirmed"
    return found(ok, "reclaimed", outcome=view["outcome"], idle=(view["use"] or {}).get("idle_for"))


def evaluated(seen: Seen) -> Found:
    """One record has the model by its digest and workload, the data, what was held, and the result."""
    record = seen[EVALUATION]["evaluation"]
    result = record["result"]
    back = [one["id"] for one in seen["model-page"]["evaluations"]]
    ok = (
        record["model"]["digest"] == "sha256:" + seen["model-digest"]
        and result["state"] == "recorded"
        and result["value"]["model_sha256"] == seen["model-digest"]
        and seen[EVALUATION]["id"] in back
        and int(record["resources"]["cpu"]) > 0
    )
    return found(ok, "evaluated", state=result["state"], digest=(result["sha256"] or "")[:12])


def escape_ended(seen: Seen) -> Found:
    """It ignored TERM and left a process of its own behind; all of it is gone, and that is proven."""
    view = seen[ESCAPEE]
    receipt = view["attempts"][-1]["receipt"] or {}
    ok = view["outcome"] == "cancelled" and receipt.get("state") == "confirmed" and not receipt["residue"]
    return found(ok, "escaped", outcome=view["outcome"], receipt=receipt.get("state"))


def survived(seen: Seen) -> Found:
    """The lost node is told apart from a failing program, and the work went on on another node."""
    view = seen["survived"]
    first, last = view["attempts"][0], view["attempts"][-1]
    verdict = first["verdict"] or {}
    ok = view["outcome"] == "succeeded" and len(view["attempts"]) == 2
    ok = ok and verdict.get("group") == "infrastructure"
    return found(
        ok, "survived", node=seen["lost-node"], code=verdict.get("code"), attempts=len(view["attempts"]),
        where=members(view)[0]["node"] if last["members"] else None,
    )  # fmt: skip


BEGIN = Step("serve", begin)
SCALE = Step("scale", scale, (Expectation("scaled", ("D5", "H2", "H5"), scaled),))
EVALUATE = Step("evaluate", evaluate)
LOSE = Step("node", lose_node, (Expectation("survived", ("F6", "F8"), survived),))
FINISH = Step(
    "finish",
    finish,
    (
        Expectation("never-squeezed", ("H1", "H7", "H9"), never_squeezed),
        Expectation("array-done", ("D9", "D8"), array_done),
        Expectation("idle-reclaimed", ("D6",), idle_reclaimed),
        Expectation("evaluated", ("D7",), evaluated),
        Expectation("escape-ended", ("G6", "G7"), escape_ended),
    ),
)
