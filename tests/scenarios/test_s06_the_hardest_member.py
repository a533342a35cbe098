"""S-06: the cause of a gang's hardest member is kept, and equal reasons are not told again and again."""

from __future__ import annotations

from dataclasses import replace

from steelyard.model.reasons import ReasonCode
from steelyard.scheduling import decide
from tests.unit.scheduling.build import NOW, POLICY, group, item, node, request, shape, snapshot, started

EASY, HARD = ("easy", 6, request(gpu=1000)), ("hard", 1, request(gpu=8000))


def test_six_members_would_fit_and_the_reason_is_that_of_the_seventh() -> None:
    base = snapshot([node(1, gpus=8), node(2, gpus=8)])
    for number, gpus in ((90, 1), (91, 8)):  # one of the first node, and all of the second
        base = started(base, group(shape(f"runs-{gpus}", request(gpu=gpus * 1000)), item(number)))
    gang = replace(shape("gang"), roles=(EASY, HARD))
    decisions = decide(replace(base, pending=(group(gang, item(1)),)), POLICY, NOW)
    (reason,) = decisions.reasons["gang"].reasons
    assert reason.code in (ReasonCode.WAITING_FOR_CAPACITY, ReasonCode.FRAGMENTED)
    assert reason.params["role"] == "hard"
    assert reason.short_by == sum(holder.amount for holder in reason.holders)


def test_the_order_of_the_roles_does_not_change_what_is_told() -> None:
    nodes = [node(1, gpus=8), node(2, gpus=6)]
    base = started(snapshot(nodes), group(shape("one", request(gpu=1000)), item(90)))
    told = []
    for roles in ((EASY, HARD), (HARD, EASY)):
        gang = replace(shape("gang"), roles=roles)
        decisions = decide(replace(base, pending=(group(gang, item(1)),)), POLICY, NOW)
        told.append([(reason.code, reason.params["role"]) for reason in decisions.reasons["gang"].reasons])
    assert told[0] == told[1]
    assert {role for _, role in told[0]} == {"hard"}


def test_the_same_reason_is_told_once_however_often_it_is_found() -> None:
    base = started(snapshot([node(1, gpus=8)]), group(shape("one", request(gpu=1000)), item(90)))
    base = replace(base, pending=(group(shape("gang", request(gpu=8000)), item(1)),))
    found = set()
    for cycle in range(5):
        decisions = decide(base, POLICY, NOW + cycle * 2_000_000)
        base = base.apply(decisions)
        found.add(decisions.reasons["gang"].reasons[0].short_by)
        assert decisions.looked == ("gang",)
    assert found == {1000}
