"""Work that fails, each at a stage of its own; work that is cancelled; a cluster that falls silent."""

from __future__ import annotations

import time

from steelyard.demo import documents
from steelyard.demo.context import LOCAL, SIMULATED, Step, Story, is_running, now
from steelyard.demo.door import get, post, wait
from steelyard.demo.expect import Expectation, Found, Json, Seen, found

#: Workload → (stage, group) of the verdict it has to get. The fourth kind, resources, is refused at submit.
STAGES = {
    "broken-image": ("image", "environment"),
    "broken-module": ("environment", "environment"),
    "broken-command": ("launch", "environment"),
    "broken-start": ("launch", "infrastructure"),
    "broken-application": ("application", "business"),
}
SILENT_SECONDS = 6


def fail(story: Story) -> None:
    """Submits all of them at once, then waits for their verdicts."""
    for name in STAGES:
        story.submit(name)
    story.seen["failed"] = {name: story.until_finished(name) for name in STAGES}
    story.seen["application-log"] = story.log("broken-application")


def _verdict(seen: Seen, name: str) -> Json:
    view = seen["failed"][name]
    if view["outcome"] != "failed" or view["verdict"] is None:
        raise ValueError(f"{name}: {view['outcome']}")
    verdict: Json = view["verdict"]
    return verdict


def _stage_of(name: str) -> Expectation:
    def check(seen: Seen) -> Found:
        verdict = _verdict(seen, name)
        ok = (verdict["stage"], verdict["group"]) == STAGES[name] and bool(verdict["evidence"])
        return found(
            ok, "verdict", name=name, stage=verdict["stage"], group=verdict["group"], reason=verdict["code"],
            responsible=verdict["responsible"],
        )  # fmt: skip

    return Expectation(f"stage-{name}", ("F1", "F3", "F12", "F13"), check)


def told_apart(seen: Seen) -> Found:
    """Four stages at least, in the three groups that the brief names, and not one lumped `failed`."""
    verdicts = [_verdict(seen, name) for name in STAGES]
    stages = {verdict["stage"] for verdict in verdicts} | {"submit"}
    actions = [verdict["action"] for verdict in verdicts if verdict["action"]]
    ok = len(stages) >= 4 and "unknown" not in stages and len(actions) == len(verdicts)
    return found(ok, "stages", count=len(stages))


def own_exit(seen: Seen) -> Found:
    """The application's own exit status and its last words are kept."""
    member = seen["failed"]["broken-application"]["attempts"][-1]["members"][0]
    said = seen["application-log"].strip().splitlines()[-1]
    return found(
        member["exit_code"] == 3 and "giving up" in said, "exit", exit=member["exit_code"], said=said
    )


def cancel(story: Story) -> None:
    """Ends a running notebook, which would run for ever."""
    story.until("notebook", is_running, "running")
    post(story.doors["mei"], f"/v1/workloads/{story.ids['notebook']}/cancel")
    story.seen["cancelled"] = story.until_finished("notebook")


def cancelled(seen: Seen) -> Found:
    """It is cancelled, not failed, and what it held is free."""
    view = seen["cancelled"]
    receipt = view["attempts"][-1]["receipt"] or {}
    ok = view["outcome"] == "cancelled" and receipt.get("state") == "confirmed"
    return found(ok, "cancelled", outcome=view["outcome"], receipt=receipt.get("state"))


def silence(story: Story) -> None:
    """Tells the simulated cluster, by its document, to fall silent for some seconds; works on meanwhile."""
    story.until("finetune", is_running, "running", 40.0)
    document = documents.one("Cluster", SIMULATED)
    document["spec"]["simulation"]["suffer"].append({"fault": "cluster-lost", "for": f"{SILENT_SECONDS}s"})
    story.apply(document)
    lost_at = now()
    wait("the cluster's silence", lambda: _reachable(story, False), 15.0, 0.05)
    story.submit("local-batch")
    local = story.until_finished("local-batch")
    story.seen["while-silent"] = _reachable(story, False) is not None
    story.seen["silent-local"] = local
    story.seen["silent-inventory"] = get(story.admin, "/v1/inventory/summary")
    wait("the cluster's return", lambda: _reachable(story, True), 30.0, 0.1)
    story.seen["silence"] = {"cluster": SIMULATED, "t0": lost_at, "t1": now()}
    time.sleep(0.2)


def _reachable(story: Story, wanted: bool) -> Json | None:
    summary: Json = get(story.admin, "/v1/inventory/summary")
    by_name = {cluster["name"]: bool(cluster["reachable"]) for cluster in summary["clusters"]}
    return summary if by_name[SIMULATED] is wanted and by_name[LOCAL] else None


def silent_alone(seen: Seen) -> Found:
    """Local work ran to its end while the other cluster did not answer; nothing was guessed of the other."""
    local = seen["silent-local"]
    rows = [row for row in seen["silent-inventory"]["classes"] if row["cluster"] == SIMULATED]
    free = sum(row["free"] for row in rows)
    ok = local["outcome"] == "succeeded" and seen["while-silent"] and free == 0 and bool(rows)
    return found(ok, "silent", outcome=local["outcome"], free=free)


FAIL = Step(
    "failures",
    fail,
    (
        *(_stage_of(name) for name in STAGES),
        Expectation("failures-told-apart", ("F1", "F2", "F4", "F5", "F6"), told_apart),
        Expectation("own-exit", ("D10", "F3"), own_exit),
    ),
)
CANCEL = Step("cancel", cancel, (Expectation("cancelled", ("F10", "G3"), cancelled),))
SILENCE = Step("silence", silence, (Expectation("silent-alone", ("A1", "B11", "B20"), silent_alone),))
