"""A project moves to another team while its work is running: what it used goes to each team for its time."""

from __future__ import annotations

from steelyard.demo import documents
from steelyard.demo.context import Step, Story, is_running, now, total
from steelyard.demo.expect import Expectation, Found, Seen, found

BEFORE, AFTER = "dialogue", "research"


def move(story: Story) -> None:
    """`language` moves from one team to another; `finetune` runs meanwhile."""
    story.until("finetune", is_running, "running", 40.0)
    document = documents.one("Project", "language")
    document["spec"]["team"] = AFTER
    story.seen["moved"] = story.apply(document)
    story.seen["moved-at"] = now()


def moved(seen: Seen) -> Found:
    """The same workload's GPU time is split between both teams, and the parts sum to the whole."""
    rows = [row for row in seen["usage-by-team"]["rows"] if row["class"] == "gpu"]
    by_team = {row["team"]: int(row["held"]) for row in rows if row["project"] == "language"}
    whole = total(
        row["held"] for row in seen["usage"]["rows"] if row["project"] == "language" and row["class"] == "gpu"
    )
    ok = by_team.get(BEFORE, 0) > 0 and by_team.get(AFTER, 0) > 0 and sum(by_team.values()) == whole
    return found(
        ok, "moved", before=_seconds(by_team.get(BEFORE, 0)), after=_seconds(by_team.get(AFTER, 0)),
        whole=_seconds(whole),
    )  # fmt: skip


def _seconds(quantity_time: int) -> int:
    """Whole device-seconds of milli-devices × µs."""
    return quantity_time // 1_000_000_000


MOVE = Step("move", move)
#: Decided at the end, by the usage.
LATER = (Expectation("moved", ("I16", "L26"), moved),)
