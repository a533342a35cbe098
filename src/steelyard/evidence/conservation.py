"""Conservation checks CK1 to CK5 (metering.md 5): what was held, idle, lost and unknown is all there was.

Pure functions over plain rows; sums are exact at every instant, by sweeping over the instants at which
something changes. Nothing is clamped: what does not add up is a finding with its device and instants.
Rows are those of the usage tables, `device_class` the key of the class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from steelyard.evidence.findings import CheckResult, Row, Window, by_device, cut, holes, levels
from steelyard.model.orghistory import OrgHistory
from steelyard.model.resources import DeviceClass, ShareKind

ATTRIBUTIONS = frozenset({"attributed", "system", "shared-split", "unattributed"})
#: CPU and memory of a node are one device each, shared by design: exclusive speaks of the share itself.
_SHARED_CLASSES = frozenset({DeviceClass.CPU.value, DeviceClass.MEMORY.value})


def check_sums(
    window: Window, capacity: Iterable[Row], unheld: Iterable[Row], holding: Iterable[Row]
) -> CheckResult:
    """CK1: at each instant, held + idle + unavailable + unknown = capacity, of each device exactly."""
    result = CheckResult("CK1")
    changes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    quantity_of = (("capacity", capacity, 1), ("quantity", unheld, -1), ("quantity", holding, -1))
    for name, rows, sign in quantity_of:
        for row in rows:
            span = cut(row, window)
            if span is not None and row["device_id"] is not None:
                device = changes[row["device_id"]]
                device[span[0]] += sign * row[name]
                device[span[1]] -= sign * row[name]
    result.checked = len(changes)
    for device_id in sorted(changes):
        for t0, t1, missing in levels(changes[device_id]):
            if missing:
                result.add("sum-differs", "device", device_id, (t0, t1), missing=str(missing))
    return result


def check_capacity(window: Window, devices: Iterable[Row], capacity: Iterable[Row]) -> CheckResult:
    """CK2: the capacity of each device is known without a gap from registration to retirement.

    `devices`: `id`, `registered_at`, `retired_at` of all that are metered.
    """
    result = CheckResult("CK2")
    segments = by_device(capacity)
    for device in devices:
        own = segments.pop(device["id"], [])
        whole = cut({"t0": device["registered_at"], "t1": device["retired_at"]}, window)
        spans = [span for row in own if (span := cut(row, window)) is not None]
        result.checked += 1
        for code, t0, t1 in holes(spans, whole or (window[0], window[0])):
            result.add(f"capacity-{code}", "device", device["id"], (t0, t1))
    for device_id in sorted(segments):
        result.add("device-unknown", "device", device_id)
    return result


def check_shares(window: Window, shares: Iterable[Row], capacity: Iterable[Row]) -> CheckResult:
    """CK3: at each instant the shares of a device sum to at most its capacity; exclusive never overlaps.

    `shares` are allocations or holding segments.
    """
    result = CheckResult("CK3")
    capacities, groups = by_device(capacity), dict[int, list[tuple[tuple[int, int] | None, int, bool]]]()
    for share in shares:  # little of each is kept: there are many
        if share["device_id"] is not None:
            sole = share["share_kind"] == ShareKind.EXCLUSIVE and share["device_class"] not in _SHARED_CLASSES
            kept = (cut(share, window), share["quantity"], sole)
            groups.setdefault(share["device_id"], []).append(kept)
    for device_id, pieces in sorted(groups.items()):
        free: dict[int, int] = defaultdict(int)
        holders: dict[int, int] = defaultdict(int)
        exclusive: dict[int, int] = defaultdict(int)
        for row in capacities.get(device_id, ()):
            _step(free, cut(row, window), row["capacity"])
        for span, quantity, sole in pieces:
            result.checked += 1
            _step(free, span, -quantity)
            _step(holders, span, 1)
            _step(exclusive, span, 1 if sole else 0)
        for t0, t1, left in levels(free):
            if left < 0:
                result.add("over-capacity", "device", device_id, (t0, t1), over=str(-left))
        _shared_exclusives(result, device_id, holders, exclusive)
    return result


def _step(changes: dict[int, int], span: tuple[int, int] | None, amount: int) -> None:
    if span is not None:
        changes[span[0]] += amount
        changes[span[1]] -= amount


def _shared_exclusives(
    result: CheckResult, device_id: int, holders: dict[int, int], exclusive: dict[int, int]
) -> None:
    for (t0, t1, count), (_, _, alone) in zip(levels(holders), levels(exclusive), strict=True):
        if alone and count > 1:
            result.add("exclusive-shared", "device", device_id, (t0, t1), holders=count)


def check_attribution(window: Window, holding: Iterable[Row], allocations: Iterable[Row]) -> CheckResult:
    """CK4: attributed + system + shared-split + unattributed = held, by class, exactly.

    What was held is taken from the allocations (t1 null: still open), not from the segments.
    """
    result = CheckResult("CK4")
    missing: dict[str, int] = defaultdict(int)
    for row in allocations:
        span = cut(row, window)
        missing[row["device_class"]] += 0 if span is None else (span[1] - span[0]) * row["quantity"]
    for row in holding:
        span = cut(row, window)
        result.checked += 1
        if span is None:
            continue
        if row["attribution"] in ATTRIBUTIONS:
            missing[row["device_class"]] -= (span[1] - span[0]) * row["quantity"]
        else:
            result.add("attribution-unknown", "allocation", row["allocation_id"], span)
    for device_class in sorted(missing):
        if missing[device_class]:
            amount = str(missing[device_class])
            result.add("attribution-differs", "class", device_class, window, missing=amount)
    return result


def check_organisation(window: Window, holding: Iterable[Row], org: OrgHistory) -> CheckResult:
    """CK5: what namespaces held sums to what projects held, and that to what teams held, where each row
    stands at the place that the organisation gave its namespace at its time."""
    result = CheckResult("CK5")
    sums: dict[tuple[str, str | None, str], int] = defaultdict(int)
    below: dict[tuple[str, str | None, str], int] = defaultdict(int)
    for row in holding:
        span = cut(row, window)
        if span is None:
            continue
        result.checked += 1
        amount, device_class = (span[1] - span[0]) * row["quantity"], row["device_class"]
        sums["project", row["project"], device_class] += amount
        sums["team", row["team"], device_class] += amount
        if row["attribution"] == "unattributed":
            below["project", row["project"], device_class] += amount
            below["team", row["team"], device_class] += amount
            continue
        for t0, t1, place in org.pieces(row["namespace"], *span):
            part = (t1 - t0) * row["quantity"]
            below["project", place.project if place else None, device_class] += part
            below["team", place.team if place else None, device_class] += part
            if place is None or (place.project, place.team) != (row["project"], row["team"]):
                result.add("place-differs", "allocation", row["allocation_id"], (t0, t1))
    for key in sorted({*sums, *below}, key=str):
        if sums[key] != below[key]:
            level, name, device_class = key
            difference = str(sums[key] - below[key])
            result.add("level-differs", level, name, window, device_class=device_class, over=difference)
    return result
