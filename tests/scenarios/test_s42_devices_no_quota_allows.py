"""S-42: devices that no quota allows anybody to use start nobody, and it is said before they are bought."""

from __future__ import annotations

from steelyard.model.policy import QUEUE_TREE, Limit, Policy
from steelyard.model.reasons import ReasonCode
from steelyard.scheduling.snapshot import AddDevices, ChangeLimit
from steelyard.scheduling.what_if import Fate, what_if
from tests.unit.scheduling.build import NOW, node, request, shape
from tests.unit.scheduling.reality import Books, really, set_limit

LIMIT = Limit(QUEUE_TREE, "q0", "gpu", 4000, 0)
MORE = AddDevices(node(2, gpus=4))


def waiting() -> Books:
    """Four devices and a queue that may use four; six want one each."""
    books = Books({1: node(1, gpus=4)}, {}, {})
    set_limit(books, LIMIT)
    for _ in range(6):
        books.submit(shape("s", request(gpu=1000), queue="q0"), NOW)
    really(books, Policy(1), NOW)
    return books


def test_more_devices_start_nobody_whom_the_quota_keeps_waiting() -> None:
    told = what_if(waiting().snapshot(NOW), Policy(1), NOW, [MORE])
    assert told.changed == ()
    assert {reason.code for reason in told.after.reasons["s"].reasons} == {ReasonCode.WAITING_FOR_QUOTA}


def test_more_quota_starts_nobody_whom_the_devices_keep_waiting() -> None:
    higher = ChangeLimit(Limit(QUEUE_TREE, "q0", "gpu", 8000, 0))
    told = what_if(waiting().snapshot(NOW), Policy(1), NOW, [higher])
    assert told.changed == ()
    assert {reason.code for reason in told.after.reasons["s"].reasons} == {ReasonCode.WAITING_FOR_CAPACITY}


def test_both_together_start_them() -> None:
    higher = ChangeLimit(Limit(QUEUE_TREE, "q0", "gpu", 8000, 0))
    told = what_if(waiting().snapshot(NOW), Policy(1), NOW, [MORE, higher])
    assert [(each.before, each.after) for each in told.changed] == [(Fate.WAITS, Fate.STARTS)] * 2
