"""Everything is given back, and the books are closed: receipts, usage, checks of the log."""

from __future__ import annotations

from steelyard.demo.closing import balances, states_sum
from steelyard.demo.context import Step, Story, members, now
from steelyard.demo.door import every, get, post, wait
from steelyard.demo.expect import Expectation, Found, Json, Seen, found
from steelyard.demo.steps import contention, moving, training, whole

#: What each signal says where the release is proven.
SIGNALS = {"control": "ended", "ledger": "closed", "probe": "free"}
DIMENSIONS = ("project", "kind", "class")


def give_back(story: Story) -> None:
    """Stops the services, waits until everything has ended, reads every workload's page."""
    training.stop_service(story)
    post(story.door_of(whole.SERVICE), f"/v1/workloads/{story.ids[whole.SERVICE]}/cancel")

    def all_finished() -> list[Json] | None:
        if every(story.admin, "/v1/workloads", phase="live"):
            return None
        return every(story.admin, "/v1/workloads", phase="finished")

    rows = wait("all workloads: finished", all_finished, 60.0, 0.2)
    story.seen["workloads"] = [get(story.admin, f"/v1/workloads/{row['id']}") for row in rows]
    second = next(view for view in story.seen["workloads"] if view["name"] == "train-long")
    story.seen["resumed-log"] = story.log("train-long", members(second)[0]["id"])
    story.seen["final-nodes"] = every(story.admin, "/v1/inventory")


def receipts(seen: Seen) -> Found:
    """Every attempt that held something has a receipt on which three signals agree."""
    attempts = [a for view in seen["workloads"] for a in view["attempts"] if a["times"]["placed"]]
    good = [attempt for attempt in attempts if _confirmed(attempt["receipt"])]
    return found(bool(attempts) and len(good) == len(attempts), "receipts", good=len(good), all=len(attempts))


def _confirmed(receipt: Json | None) -> bool:
    if receipt is None or receipt["state"] != "confirmed" or receipt["confirmed_at"] is None:
        return False
    return all(receipt["signals"][signal] == seen for signal, seen in SIGNALS.items())


def all_free(seen: Seen) -> Found:
    """No device is held by anybody."""
    devices = [device for node in seen["final-nodes"] for device in node["devices"]]
    held = [device for device in devices if device["held"] or device["holders"]]
    return found(bool(devices) and not held, "free", devices=len(devices), held=len(held))


def tiles(seen: Seen) -> Found:
    """Of each attempt, waits and stages follow one another from submit to receipt without gap or overlap."""
    attempts = [attempt for view in seen["workloads"] for attempt in view["attempts"]]
    good = [attempt for attempt in attempts if _tiles(attempt)]
    return found(bool(attempts) and len(good) == len(attempts), "tiles", good=len(good), all=len(attempts))


def _tiles(attempt: Json) -> bool:
    times = attempt["times"]
    pieces = sorted((piece["t0"], piece["t1"]) for piece in [*attempt["waits"], *attempt["tiles"]])
    at = times["submitted"]
    for t0, t1 in pieces:
        if t0 != at or t1 is None:
            return False
        at = t1
    return bool(at == times["release_confirmed"])


def measure(story: Story) -> None:
    """Reads usage from the first moment until now."""
    window = {"from": story.began, "to": now()}
    story.seen["usage"] = get(story.admin, "/v1/usage", **window, by=",".join(DIMENSIONS))
    story.seen["review"] = get(story.admin, "/v1/usage/review", **window)
    story.seen["usage-by-team"] = get(story.admin, "/v1/usage", **window, by="team,project,kind,class")


def usage_closes(seen: Seen) -> Found:
    """Held + idle + unavailable + unknown = capacity × time, exactly, for each class; summed again here."""
    usage = seen["usage"]
    found_balances = balances(usage)
    wrong = [key for key, balance in found_balances.items() if balance.difference]
    ok = usage["closes"] is True and len(found_balances) >= 6 and not wrong and states_sum(usage)
    return found(ok, "closes", classes=len(found_balances), wrong=len(wrong))


def usage_attributed(seen: Seen) -> Found:
    """Rows by project × kind × class for both projects and all kinds that ran."""
    rows = seen["usage"]["rows"]
    projects = {row["project"] for row in rows}
    kinds = {row["kind"] for row in rows}
    ok = {"vision", "language"} <= projects and {"training", "inference", "batch"} <= kinds
    return found(ok and None not in projects, "attributed", rows=len(rows), kinds=len(kinds))


def reviewed(seen: Seen) -> Found:
    """The five questions of a review have an answer from rows, with the figures behind."""
    answers = seen["review"]["answers"]
    codes = {name: answer["code"] for name, answer in answers.items()}
    idle, queueing = answers["idle"]["rows"], answers["queueing"]["rows"]
    ok = len(answers) == 5 and "unknown" not in codes.values()
    ok = ok and bool(idle) and bool(queueing) and codes["unattributed"] == "all-attributed"
    return found(
        ok, "reviewed", idle=answers["idle"]["params"].get("percent"),
        kind=answers["queueing"]["params"].get("kind"), next=codes["next"],
    )  # fmt: skip


def audit(story: Story) -> None:
    """Has the books checked, and reads the newest signed checkpoint."""
    story.seen["checks"] = post(story.admin, "/v1/audit/checks")
    story.seen["checkpoint"] = get(story.admin, "/v1/audit/checkpoint")


def checks_hold(seen: Seen) -> Found:
    """CK1 to CK9 hold, and each state has its leaf."""
    checks = {check["id"]: bool(check["ok"]) for check in seen["checks"]["checks"]}
    wanted = {f"CK{number}" for number in range(1, 10)}
    bad = [name for name, ok in checks.items() if not ok]
    ok = seen["checks"]["ok"] is True and wanted <= set(checks) and not bad
    return found(ok, "checks", count=len(checks), bad=", ".join(bad) or None)


GIVE_BACK = Step(
    "release",
    give_back,
    (
        Expectation("receipts", ("G1", "G2", "G5", "G7"), receipts),
        Expectation("all-free", ("B10", "G4"), all_free),
        Expectation("tiles", ("D1", "D13", "E11"), tiles),
        *contention.LATER,
    ),
)
MEASURE = Step(
    "usage",
    measure,
    (
        Expectation("usage-closes", ("L23", "L12"), usage_closes),
        Expectation("usage-attributed", ("L5", "L8", "L9"), usage_attributed),
        Expectation("reviewed", ("L14", "L15", "L16", "L17", "L18"), reviewed),
        *moving.LATER,
    ),
)
AUDIT = Step("audit", audit, (Expectation("checks-hold", ("L11", "K7"), checks_hold),))
