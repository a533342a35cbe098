"""The files of a bundle that are made of rows: inventory/, usage/, and the lists of what is not covered.

All JSON is canonical (keys sorted, no white space), a line each in `.jsonl`; ids are rendered, sums of
quantity × µs are decimal text, times µs UTC, intervals half-open. Segments are cut at the bundle's window.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec.json import decode

from steelyard.evidence.canonical import encode_trusted
from steelyard.evidence.findings import CheckResult, cut
from steelyard.model.ids import render
from steelyard.services.bundle_dictionary import DICTIONARY
from steelyard.services.bundle_folder import Pieces
from steelyard.services.checks import Books, result_view
from steelyard.services.conditions import process_view, read_condition, sign_view
from steelyard.store import audit as repository
from steelyard.store import releases as release_rows
from steelyard.store import usage as usage_rows
from steelyard.store.database import View
from steelyard.store.scoped import Record

Json = dict[str, Any]
Window = tuple[int, int]
_TOGETHER = 500
REPORT_COLUMNS = ("project", "team", "kind", "class", "pool", "environment", "namespace", "cluster")


def dump(value: Any) -> bytes:
    """Canonical JSON and a line's end."""
    return encode_trusted(value) + b"\n"


def lines(rows: Iterable[Any]) -> Iterator[bytes]:
    """A JSON object on each line, some lines at a time."""
    for group in batched(rows):
        yield b"".join(encode_trusted(row) + b"\n" for row in group)


def batched(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """Some rows at a time."""
    left = iter(rows)
    while group := list(islice(left, _TOGETHER)):
        yield group


# --- usage/ ----------------------------------------------------------------------------------------
def usage_files(
    view: View, books: Books, window: Window, checks: list[CheckResult], report: Json
) -> dict[str, Pieces]:
    """Segments and capacity that a stranger can sum, waits, receipts, refusals, blind times, checks, sums."""
    return {
        "usage/segments.jsonl": lines(_segments(books, window)),
        "usage/capacity.jsonl": lines(_capacity(books, window)),
        "usage/waits.jsonl": lines(_waits(books, window)),
        "usage/receipts.jsonl": lines(_receipts(view, window)),
        "usage/refusals.jsonl": lines(_refusals(view, window)),
        "usage/coverage.jsonl": lines(_coverage(view, window)),
        "usage/conservation.json": dump({"checks": [result_view(check) for check in checks]}),
        "usage/report.json": dump(report),
        "usage/report.csv": _csv(report),
        "usage/dictionary.json": dump(DICTIONARY),
    }


def _kind(state: str) -> str:
    return state.partition(".")[0]


def _segments(books: Books, window: Window) -> Iterable[Json]:
    dimensions = {row["device_id"]: row["dimension"] for row in books.capacity}
    for row in books.whole:
        span = cut(row, window)
        if span is not None:
            yield {
                "kind": "holding",
                "resource": _device(row["device_id"]),
                "class": row["device_class"],
                "dimension": row["dimension"],
                "quantity": row["quantity"],
                "t0": span[0],
                "t1": span[1],
                "state": row["state"],
                "record": row["record_id"].hex(),
                "simulated": bool(row["simulated"]),
                "workload": render("workload", row["workload_id"]),
                "attempt": render("attempt", row["attempt_id"]),
                "allocation": render("allocation", row["allocation_id"]),
                **{name: row[name] for name in _HELD_COLUMNS},
            }
    for row in books.unheld:
        span = cut(row, window)
        if span is not None:
            yield {
                "kind": _kind(row["state"]),
                "resource": _device(row["device_id"]),
                "class": row["device_class"],
                "dimension": dimensions.get(row["device_id"], "device"),
                "quantity": row["quantity"],
                "t0": span[0],
                "t1": span[1],
                "state": row["state"],
                "reason": row["reason"] or None,
                "cluster": row["cluster"],
                "simulated": bool(row["simulated"]),
            }


_HELD_COLUMNS = (
    "cluster", "flavor", "share_kind", "queue", "priority", "policy_version", "submitter", "namespace",
    "project", "team", "environment", "cost_centre", "org_version", "attribution", "quota_basis", "lender",
    "end_reason", "failure_stage", "failure_code", "release",
)  # fmt: skip


def _device(device_id: int | None) -> str:
    return "unknown" if device_id is None else render("device", device_id)


def _capacity(books: Books, window: Window) -> Iterable[Json]:
    for row in books.capacity:
        span = cut(row, window)
        if span is not None:
            yield {
                "resource": _device(row["device_id"]),
                "class": row["device_class"],
                "dimension": row["dimension"],
                "capacity": row["capacity"],
                "t0": span[0],
                "t1": span[1],
                "availability": row["availability"],
                "reason": row["reason"],
                "cluster": row["cluster"],
                "pool": row["pool"],
                "simulated": bool(row["simulated"]),
            }


def _waits(books: Books, window: Window) -> Iterable[Json]:
    for row in books.waits:
        span = cut(row, window)
        if span is not None:
            yield {
                "workload": render("workload", row["workload_id"]),
                "attempt": render("attempt", row["attempt_id"]),
                "project": row["project"],
                "kind": row["kind"],
                "reason": row["reason"],
                "t0": span[0],
                "t1": span[1],
            }


def _receipts(view: View, window: Window) -> Iterable[Json]:
    """Of attempts that ended, and of members that left one that goes on; each stands in a leaf, too."""
    for row in release_rows.receipts_between(view, window):
        yield {
            "workload": render("workload", row["workload_id"]),
            "attempt": render("attempt", row["attempt"]),
            "member": None if row["part"] is None else render("member", row["part"]),
            "role": row["role"],
            "index": row["idx"],
            **{name: row[name] for name in ("state", "control", "ledger", "probe", "probed_at")},
            "confirmed": row["confirmed_at"],
            "counts": decode(row["counts_json"] or "{}"),
            "residue": decode(row["residue_json"]),
            "reasons": decode(row["reasons_json"] or "[]"),
        }


def _refusals(view: View, window: Window) -> Iterable[Json]:
    for row in usage_rows.refusal_rows(view, window):
        yield {
            "id": render("refusal", row["id"]),
            "leaf": row["head_seq"],
            "asked": decode(row["asked_json"]),
            "reasons": decode(row["reasons_json"]),
            "complete": bool(row["complete"]),
            **{
                name: row[name]
                for name in (
                    "at", "principal", "project", "namespace", "kind", "request_digest", "policy_version",
                    "review_state",
                )
            },
        }  # fmt: skip


def _coverage(view: View, window: Window) -> Iterable[Json]:
    for row in usage_rows.blind_rows(view, window):
        span = cut(row, window)
        if span is not None:
            yield {"source": row["cluster"], "t0": span[0], "t1": span[1], "blind": row["reason"]}


def _csv(report: Json) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    states = sorted({state for row in report["rows"] for state in row["by_state"]})
    writer.writerow([*report["by"], "simulated", "held", *states])
    for row in report["rows"]:
        cells = [_cell(row[name]) for name in report["by"]]
        amounts = [row["by_state"].get(state, "0") for state in states]
        writer.writerow([*cells, str(row["simulated"]).lower(), row["held"], *amounts])
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


# --- inventory/ ------------------------------------------------------------------------------------
def inventory_files(view: View, books: Books, window: Window) -> dict[str, Pieces]:
    """The devices at both ends of the window and what differs, labels, reasons, where each fact is from."""
    devices = repository.all_devices(view)
    before, after = (_inventory_at(devices, books.capacity, at) for at in (window[0], window[1] - 1))
    return {
        "inventory/before.json": dump({"at": window[0], "devices": list(before.values())}),
        "inventory/after.json": dump({"at": window[1], "devices": list(after.values())}),
        "inventory/diff.json": dump(_difference(before, after)),
        "inventory/labels.json": dump({"nodes": list(_labels(view)), "history": list(_label_history(view))}),
        "inventory/reasons.json": dump(
            {
                "unavailable": list(_reasons(books, window)),
                "health": list(_conditions(view)),
                "flags": list(_flags(view)),
            }
        ),
        "inventory/provenance.json": dump({"facts": list(_facts(view))}),
    }


def _inventory_at(devices: list[Json], capacity: list[Record], at: int) -> dict[str, Json]:
    there = {row["device_id"]: row for row in capacity if row["t0"] <= at < row["t1"]}
    return {
        render("device", device["id"]): {
            "id": render("device", device["id"]),
            "uid": device["uid"],
            "cluster": device["cluster"],
            "node": device["node"],
            "class": device["device_class"],
            "family": device["family"],
            "model": device["model"],
            "memory": device["memory"],
            "simulated": bool(device["simulated"]),
            **{name: there[device["id"]][name] for name in ("capacity", "availability", "reason", "pool")},
        }
        for device in devices
        if device["id"] in there
    }


def _difference(before: dict[str, Json], after: dict[str, Json]) -> Json:
    return {
        "added": sorted(set(after) - set(before)),
        "removed": sorted(set(before) - set(after)),
        "changed": [
            {"id": name, "before": before[name], "after": after[name]}
            for name in sorted(set(before) & set(after))
            if before[name] != after[name]
        ],
    }


def _labels(view: View) -> Iterable[Json]:
    for row in repository.all_nodes(view):
        yield {
            "node": row["name"],
            "cluster": row["cluster"],
            "labels": decode(str(row["labels_json"])),
            "simulated": bool(row["simulated"]),
        }


def _reasons(books: Books, window: Window) -> Iterable[Json]:
    for row in books.capacity:
        span = cut(row, window)
        if span is not None and row["availability"] != "available":
            yield {
                "device": _device(row["device_id"]),
                "t0": span[0],
                "t1": span[1],
                "availability": row["availability"],
                "reason": row["reason"],
            }


def _label_history(view: View) -> Iterable[Json]:
    for row in repository.node_states(view):
        yield {
            "node": render("node", int(str(row["node_id"]))),
            "labels": decode(str(row["labels_json"])),
            "by": row["set_by"],
            "valid_from": row["valid_from"],
            "valid_to": row["valid_to"],
        }


def _conditions(view: View) -> Iterable[Json]:
    """What sources said of devices that were not simply healthy with nobody on them."""
    for row in repository.conditions(view):
        condition = read_condition(row)
        yield {
            "device": _device(row.device_id),
            "health": condition.health.value,
            "signs": [sign_view(sign) for sign in condition.signs],
            "processes": [process_view(holder) for holder in condition.holders],
            "valid_from": row.valid_from,
            "valid_to": row.valid_to,
        }


def _flags(view: View) -> Iterable[Json]:
    """Who took what out of service, when and why."""
    told = ("flag", "drain", "set_by", "reason", "valid_from", "valid_to", "lifted_by", "lift_reason")
    for row in repository.all_flags(view):
        kind, number = str(row["kind"]), int(str(row["object_id"]))
        yield {"on": kind, "id": render(kind, number), **{name: row[name] for name in told}}


def _facts(view: View) -> Iterable[Json]:
    for row in repository.device_facts(view):
        named = {name: row[name] for name in ("key", "provenance", "source", "at", "valid_from", "valid_to")}
        yield {
            "device": _device(int(str(row["device_id"]))),
            "value": decode(str(row["value_json"])),
            **named,
        }


# --- what is not covered ---------------------------------------------------------------------------
def pending(devices: list[Json], witnessed: bool) -> Json:
    """What can't be decided by this bundle, with who owns the reason (poc-kit.md 2)."""
    simulated: dict[tuple[str, str], int] = {}
    for device in devices:
        if device["simulated"]:
            key = (str(device["cluster"]), str(device["device_class"]))
            simulated[key] = simulated.get(key, 0) + 1
    items: list[Json] = [
        {
            "status": "pending-verification",
            "reason": "simulated-device",
            "owner": "platform",
            "subject": {"cluster": cluster, "class": device_class, "devices": count},
        }
        for (cluster, device_class), count in sorted(simulated.items())
    ]
    if not witnessed:
        subject = {"checkpoint": "audit/end.ckpt"}
        items.append(
            {
                "status": "pending-verification", "reason": "time-not-anchored", "owner": "security",
                "subject": subject,
            }
        )  # fmt: skip
    return {"items": items}


def uncovered(books: Books) -> Json:
    """What such a bundle says nothing about."""
    items = [
        {"code": "utilisation-not-sampled", "subject": "usage/segments.jsonl"},
        {"code": "release-not-observable", "subject": "usage/segments.jsonl"}
        if any(row["release"] == "not-observable" for row in books.whole)
        else None,
        {"code": "no-price", "subject": "usage/"},
        {"code": "no-sign-off", "subject": "signoff/"},
    ]
    return {"items": [item for item in items if item is not None]}
