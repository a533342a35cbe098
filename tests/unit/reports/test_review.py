"""The five questions of a review, answered from rows, and said to be unknown where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.locale import has, text
from steelyard.reports.review import QUESTIONS, review

EMPTY: dict[str, Any] = {"from": 0, "to": 10, "idle": [], "waits": [], "failures": [], "unattributed": []}
HOUR = 3_600_000_000


def place(cluster: str, cls: str, capacity: int, **states: int) -> dict[str, Any]:
    unheld = {name.replace("_", "."): amount for name, amount in states.items()}
    return {"cluster": cluster, "class": cls, "simulated": True, "capacity": capacity, "unheld": unheld}


def wait(kind: str, reason: str, time: int, count: int = 1) -> dict[str, Any]:
    return {"project": "p", "kind": kind, "reason": reason, "time": str(time), "count": count}


def answers(**rows: Any) -> dict[str, Any]:
    found: dict[str, Any] = review({**EMPTY, **rows})["answers"]
    return found


def test_nothing_to_answer_from_is_unknown_and_never_a_guess() -> None:
    found = answers()
    assert {name: found[name]["code"] for name in QUESTIONS} == {
        "idle": "unknown", "queueing": "unknown", "failures": "none", "unattributed": "unknown",
        "next": "unknown",
    }  # fmt: skip


@pytest.mark.requirement("L14")
def test_the_most_idle_place_is_named_with_its_cause_and_what_is_reserved_is_not_idle() -> None:
    found = answers(
        idle=[
            place("a", "gpu", 1000, idle_schedulable=100, idle_reserved=700),
            place("b", "npu", 1000, idle_schedulable=100, idle_fragmented=300, unknown=50),
        ]
    )["idle"]
    assert found["code"] == "idle-most"
    assert (found["params"]["cluster"], found["params"]["cause"]) == ("b", "idle.fragmented")
    assert [(row["cluster"], row["permille"]) for row in found["rows"]] == [("b", 400), ("a", 100)]


@pytest.mark.requirement("L15")
def test_the_kind_that_waits_longest_in_the_mean_is_named_and_waits_by_will_do_not_count() -> None:
    found = answers(
        waits=[
            wait("batch", "quota", 60, 6), wait("training", "capacity", 30), wait("training", "quota", 10),
            wait("inference", "standby", 10_000), wait("experiment", "held-by-user", 10_000),
        ]
    )["queueing"]  # fmt: skip
    assert (found["params"]["kind"], found["params"]["mean"], found["params"]["reason"]) == (
        "training", 20, "capacity",
    )  # fmt: skip
    assert [row["kind"] for row in found["rows"]] == ["training", "batch"]


@pytest.mark.requirement("L16")
def test_only_what_failed_more_than_once_recurs() -> None:
    verdict = {"stage": "application", "code": "exit-code", "responsible": "submitter"}
    group = {"signature": "s", "workloads": 1, "simulated": False, "kind": "attempt", "verdict": verdict}
    found = answers(failures=[{**group, "count": 3}, {**group, "signature": "t", "count": 1}])["failures"]
    assert (found["code"], found["params"]["count"], len(found["rows"])) == ("recurs-most", 3, 1)
    assert answers(failures=[{**group, "count": 1}])["failures"]["code"] == "none-recurs"


@pytest.mark.requirement("L17")
def test_projects_without_a_place_are_named() -> None:
    rows = [{"project": "ghost", "class": "gpu", "simulated": False, "held": 5}]
    assert answers(unattributed=rows)["unattributed"]["params"] == {"projects": "ghost", "count": 1}
    assert answers(idle=[place("a", "gpu", 10)])["unattributed"]["code"] == "all-attributed"


@pytest.mark.requirement("L18")
@pytest.mark.parametrize(
    ("waits", "idle", "code"),
    [
        ([wait("batch", "capacity", 90), wait("batch", "quota", 10)], 50, "resources"),
        ([wait("batch", "capacity", 90), wait("batch", "quota", 10)], 100, "rules"),
        ([wait("batch", "capacity", 10), wait("batch", "quota", 90)], 0, "rules"),
        ([], 500, "neither"),
    ],
)
def test_rules_or_resources_follow_from_the_waits_and_what_was_idle(
    waits: list[dict[str, Any]], idle: int, code: str
) -> None:
    places = [place("a", "gpu", 1000, idle_schedulable=idle), place("a", "cpu", 1000, idle_schedulable=900)]
    assert answers(waits=waits, idle=places)["next"]["code"] == code


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_answer_has_its_sentence(lang: str) -> None:
    for question, codes in {
        "idle": ("idle-most", "nowhere", "unknown"), "queueing": ("queues-worst", "unknown"),
        "failures": ("recurs-most", "none-recurs", "none"),
        "unattributed": ("not-attributed", "all-attributed", "unknown"),
        "next": ("rules", "resources", "neither", "unknown"),
    }.items():  # fmt: skip
        for code in ("question", *codes):
            assert has(f"report.review.{question}.{code}")
            assert text(f"report.review.{question}.{code}", {}, lang)
