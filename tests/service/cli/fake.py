"""A server that is a table of answers, shaped as the API gives them, and a way to run commands on it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from steelyard.cli.main import main
from steelyard.cli.session import Session
from steelyard.client import Client
from tests.service.cli import fake_devices, fake_foresight, fake_pools

SECOND = 1_000_000
T0 = 1_767_225_600 * SECOND  # 2026-01-01 00:00:00 UTC

REASON: dict[str, Any] = {
    "code": "waiting-for-quota", "stage": "quota", "scope": "project", "owner": "project/alpha",
    "resource": "gpu", "flavor": None, "limit": 4000, "used": 4000, "requested": 2000, "short_by": 2000,
    "holders": [
        {"kind": "workload", "id": "wl_7", "amount": 2000, "name": "train-a", "project": "alpha",
         "queue": "main", "since": T0},
    ],
    "wakes_on": ["workload-released"], "approximate": False, "params": {}, "text": "server's own sentence",
}  # fmt: skip
PRIORITY_REASON = {**REASON, "code": "priority", "owner": None, "holders": [], "wakes_on": []}
FACTOR = {"code": "factor.band", "name": "band", "a": 900, "b": 100, "first": -1, "nodes": None}
_REMEDY: dict[str, Any] = {
    "role": None, "resource": "gpu", "before": None, "after": None, "flavor": None, "queue": None,
    "priority_class": None, "raises": [], "holders": [], "at": None, "approximate": False,
}
REMEDIES = [
    {"code": f"remedy.{change['kind']}", **_REMEDY, **change}
    for change in (
        {"kind": "other-flavor", "flavor": "b200"},
        {"kind": "other-queue", "queue": "night", "priority_class": "low"},
        {"kind": "shorter-time-limit", "before": 7_200_000_000, "after": 3_600_000_000},
        {"kind": "fewer-members", "role": "main", "before": 4, "after": 3},
        {"kind": "fewer-devices", "role": "main", "before": 2000, "after": 1000, "approximate": True},
        {"kind": "wait-for", "at": 1_772_352_000_000_000, "holders": [
            {"kind": "workload", "id": "wl_9", "amount": 2000, "name": "big", "project": "alpha",
             "queue": "main", "since": None}]},
        {"kind": "raise-limit", "raises": [
            {"tree": "organisation", "owner": "project/alpha", "scope": "project", "resource": "gpu",
             "flavor": None, "field": "borrowing_limit", "before": 4000, "after": 6000, "by": 2000,
             "ask": None}]},
    )
]  # fmt: skip
VERDICT: dict[str, Any] = {
    "stage": "application", "code": "exit-code", "group": "business", "responsible": "submitter",
    "action": "look-at-log", "confidence": "high", "text": "server's own",
    "evidence": [
        {"kind": "counter", "field": "exit_code", "value": 3, "member": "mb_1", "offset": None,
         "length": None, "digest": None},
    ],
    "params": {"exit": 3}, "detail": None, "retry": "do-not-retry", "rule": "application.exit-code",
    "catalogue": "1-abc", "signature": "0123456789abcdef",
    "others": [{"rule": "line.network", "stage": "environment", "code": "network-unreachable",
                "confidence": "medium"}],
}  # fmt: skip
ROW: dict[str, Any] = {
    "id": "wl_1", "name": "train-1", "namespace": "lab", "project": "alpha", "team": "red",
    "kind": "training", "queue": "main", "priority": 500, "phase": "queued", "sub_stage": None,
    "outcome": None, "attempt": 1, "submitted_at": T0, "placed_at": None, "started_at": None,
    "finished_at": None, "cluster": None, "simulated": False, "first_reason": REASON, "version": 1,
    "requested": {"cpu": 500, "gpu": 2000, "memory": 2048},
}  # fmt: skip
TIMES = {
    "submitted": T0, "eligible": T0, "reserved": None, "placed": T0 + 2 * SECOND, "started": T0 + 3 * SECOND,
    "ready": None, "stopping": None, "ended": T0 + 13 * SECOND, "release_confirmed": T0 + 14 * SECOND,
}  # fmt: skip
ATTEMPT: dict[str, Any] = {
    "id": "at_1", "number": 1, "phase": "finished", "sub_stage": None, "outcome": "failed", "cluster": "sim",
    "simulated": True, "times": TIMES,
    "tiles": [
        {"state": "starting", "t0": T0 + 2 * SECOND, "t1": T0 + 3 * SECOND},
        {"state": "running", "t0": T0 + 3 * SECOND, "t1": T0 + 13 * SECOND},
        {"state": "releasing", "t0": T0 + 13 * SECOND, "t1": T0 + 14 * SECOND},
    ],
    "waits": [
        {"reason": "quota", "t0": T0, "t1": T0 + SECOND},
        {"reason": "capacity", "t0": T0 + SECOND, "t1": T0 + 2 * SECOND},
    ],
    "members": [
        {"id": "mb_1", "role": "main", "index": 0, "phase": "ended", "node": "n-0", "exit_code": 3,
         "exit_signal": None, "endpoint": None,
         "devices": [
             {"device": "dv_1", "uid": "n-0/gpu-0", "class": "gpu", "model": "A100", "quantity": 2000,
              "simulated": True},
         ]},
    ],
    "receipt": {
        "state": "confirmed", "confirmed_at": T0 + 14 * SECOND,
        "signals": {"control": "ended", "ledger": "closed", "probe": "free"},
        "checks": [["processes", "gone"]], "residue": [],
    },
    "verdict": VERDICT,
}  # fmt: skip
WAITING: dict[str, Any] = {
    **ROW, "reasons": [REASON, PRIORITY_REASON], "verdict": None, "evictions": [], "spec": {},
    "submitter": "ann", "ahead": 2,
    "attempts": [{**ATTEMPT, "phase": "queued", "outcome": None, "cluster": None, "simulated": False,
                  "times": dict.fromkeys(TIMES) | {"submitted": T0}, "tiles": [], "members": [],
                  "waits": [{"reason": "quota", "t0": T0, "t1": None}], "receipt": None, "verdict": None}],
}  # fmt: skip
FAILED: dict[str, Any] = {
    **WAITING, "phase": "finished", "outcome": "failed", "cluster": "sim", "simulated": True, "reasons": [],
    "verdict": VERDICT, "started_at": T0 + 3 * SECOND, "finished_at": T0 + 14 * SECOND, "first_reason": None,
    "attempts": [ATTEMPT], "ahead": None, "version": 6,
    "evictions": [{"attempt": "at_0", "preemptor": "wl_9", "preemptor_name": "big", "rule": "within-queue",
                   "policy_version": 1, "quantity": {"gpu": 1000}, "lost_time": 5 * SECOND, "at": T0},
                  {"attempt": "at_0", "preemptor": "wl_9", "preemptor_name": "big", "rule": "reclaim",
                   "policy_version": 1, "quantity": {"gpu": 2000}, "lost_time": 5 * SECOND, "at": T0,
                   "members": [{"id": "mb_2", "role": "main", "index": 3}], "goes_on_with": 3}],
}  # fmt: skip
FAILURES: dict[str, Any] = {
    "catalogue": "1-abc", "from": None, "to": T0, "by_stage": {"application": 4, "unknown": 1}, "failures": 5,
    "refusals": 2, "lost_time": 90 * SECOND, "simulated_lost_time": 0, "groups": 3,
    "items": [
        {"signature": "0123456789abcdef", "kind": "attempt", "simulated": True, "count": 4, "workloads": 3,
         "lost_time": 80 * SECOND, "first_at": T0, "last_at": T0, "verdict": VERDICT,
         "projects": [{"project": "alpha", "count": 4}],
         "newest": {"workload": "wl_2", "name": "old", "project": "alpha", "attempt": 1}},
    ],
}  # fmt: skip
OLD = {**{key: FAILED[key] for key in ROW}, "id": "wl_2", "name": "old"}
DEVICE: dict[str, Any] = {
    "id": "dv_1", "uid": "n-0/gpu-0", "cluster": "sim", "node": "n-0", "class": "gpu", "family": "nvidia",
    "model": "A100", "capacity": 1000, "held": 1000, "free": 0, "reserved": 0, "unavailable": 0, "unknown": 0,
    "state": "held", "reason": None, "pool": "accel", "flavor": "a100", "provenance": "simulated",
    "simulated": True,
    "holders": [{"workload": "wl_1", "name": "train-1", "project": "alpha", "quantity": 1000}],
    "facts": [{"key": "model", "value": "A100", "provenance": "simulated", "source": "sim", "at": T0,
               "valid_from": T0, "valid_to": None, "version": 1}],
    "availability_history": [{"t0": T0, "t1": None, "availability": "available", "reason": None}],
    **fake_devices.SAID,
}  # fmt: skip
GONE = {**DEVICE, "id": "dv_2", "state": "unavailable", "reason": "missing", "holders": []}
NODE = {"id": "nd_1", "name": "n-0", "cluster": "sim", "simulated": True, "devices": [DEVICE, GONE]}
SUMMARY = {
    "as_of": T0,
    "clusters": [{"name": "sim", "engine": "simulated", "simulated": True, "reachable": True,
                  "observed_at": T0}],
    "classes": [{"class": "gpu", "cluster": "sim", "simulated": True, "capacity": 2000, "held": 1000,
                 "free": 0, "reserved": 0, "unavailable": 1000, "unknown": 0}],
}  # fmt: skip
LIMIT = {"subject": "gpu", "nominal": 4000, "borrowing_limit": None, "lending_limit": 1000, "used": 4000,
         "available": 0, "potential": 8000}  # fmt: skip
QUEUE = {"name": "main", "node": "main", "kind": "queue", "parent": None, "stopped": True, "limits": [LIMIT],
         "pending": 1, "running": 2}  # fmt: skip
DOCUMENT = {
    "kind": "Team",
    "metadata": {"name": "red", "labels": {}, "version": 1, "valid_from": T0, "valid_to": None},
    "spec": {"displayName": "红队"},
}  # fmt: skip
RESULT = {
    "kind": "Team", "name": "red", "action": "created", "version": 1,
    "diff": [{"path": "spec.displayName", "before": None, "after": "红队"}],
    "warnings": [{"code": "quota-below-use", "text": "?",
                  "params": {"node": "red", "subject": "gpu", "limit": 1, "used": 2}}],
}  # fmt: skip
REVIEW: dict[str, Any] = {
    "from": T0, "to": T0 + SECOND,
    "answers": {
        "idle": {"code": "idle-most",
                 "params": {"cluster": "sim", "device_class": "gpu", "percent": "25.0 %",
                            "cause": "idle.schedulable", "simulated": True},
                 "rows": [{"cluster": "sim", "class": "gpu", "simulated": True, "permille": 250,
                           "cause": "idle.schedulable"}]},
        "queueing": {"code": "queues-worst",
                     "params": {"kind": "training", "mean": SECOND, "waits": 2, "reason": "quota"},
                     "rows": [{"kind": "training", "waits": 2, "mean": SECOND, "reason": "quota"}]},
        "failures": {"code": "none-recurs", "params": {"groups": 0}, "rows": []},
        "unattributed": {"code": "all-attributed", "params": {}, "rows": []},
        "next": {"code": "rules", "params": {"rules": SECOND, "resources": 0, "percent": "25.0 %",
                                             "enough": "10.0 %"}, "rows": []},
    },
}  # fmt: skip
REFUSAL = {
    "id": "rf_1", "at": T0, "submitter": "ann", "project": "alpha", "namespace": "lab", "name": "big",
    "kind": "training", "asked": {"gpu": 64000}, "reasons": [REASON], "complete": True, "policy_version": 3,
    "review_state": "open",
}  # fmt: skip
USAGE: dict[str, Any] = {
    "from": T0, "to": T0 + 3600 * SECOND,
    "rows": [{"project": "alpha", "kind": "training", "class": "gpu", "simulated": True,
              "held": str(1000 * 3600 * SECOND),
              "by_state": {"starting": "0", "running": str(1000 * 3600 * SECOND), "stopping": "0",
                           "releasing": "0"}}],
    "unheld": [{"class": "gpu", "simulated": True, "state": "idle.schedulable",
                "quantity_time": str(1000 * 3600 * SECOND)}],
    "capacity": [{"class": "gpu", "simulated": True, "capacity_time": str(2000 * 3600 * SECOND)}],
    "waits": [{"project": "alpha", "kind": "training", "reason": "quota", "time": str(90 * SECOND),
               "count": 2}],
    "counts": {"submitted": 4, "refused": 1, "finished": {"failed": 1, "succeeded": 1}, "live": 1},
    "complete": False, "closes": True,
}  # fmt: skip
CHECKS = {"ok": True, "checks": [{"id": "CK1", "ok": True, "checked": 9, "findings": []}]}
LEAVES = {
    "stream": "project/alpha", "head": {"n": 1, "seq": 4, "hash": "ab"},
    "items": [{"seq": 4, "ts": T0, "actor": {"kind": "user", "name": "ann"}, "action": "workload.submit",
               "object": {"kind": "workload", "id": "wl_1"}, "outcome": "ok", "reason_code": None}],
}  # fmt: skip
CHECKPOINT = {"size": 5, "root": "x", "note": "steelyard.local/1\n5\nx\n", "short_code": "5-AAAA",
              "key": {"name": "k", "vkey": "v", "fingerprint": "f0f0"}}  # fmt: skip
UNPROVEN: dict[str, Any] = {
    "id": "rl_1", "attempt": "at_2", "workload": "wl_2", "name": "old", "namespace": "red-dev",
    "project": "alpha", "number": 1, "clusters": ["sim"], "state": "quarantined", "quarantined_at": T0,
    "reasons": [{"code": "release.probe-occupied", "signal": "probe", "check": "mounts", "number": 1}],
    "seen": {"at": T0, "checks": [["mounts", "remains", 1]], "left": 2,
             "residue": ["mount /data/x", "process 7"]},
    "held": [{"device": "dv_1", "uid": "gpu-0", "cluster": "sim", "class": "gpu", "quantity": 2000}],
    "asked": None, "fenced_at": T0, "closed_at": None, "closed_by": None, "receipt": None, "version": 3,
    "answer": {"asked": "fence", "by": "ann", "reason": "stuck", "at": T0, "code": "release.fenced",
               "done": {"processes": 2}},
}  # fmt: skip
PROVEN: dict[str, Any] = {
    **UNPROVEN, "state": "proven", "closed_at": T0 + SECOND, "closed_by": "ann",
    "answer": {**UNPROVEN["answer"], "code": "release.proven"},
}  # fmt: skip
CYCLE = {"id": "cy_1", "at": T0, "log_size": 9, "policy_version": 1, "counts": {"placements": 1}}
DOCTOR = {"checks": [
    {"id": "database", "ok": True, "code": "database-answers", "text": "?",
     "params": {"kind": "sqlite", "version": "3", "schema": "0001"}},
    {"id": "lease", "ok": None, "code": "lease-never-held", "params": {}, "text": "?"},
]}  # fmt: skip
USER = {"id": "us_1", "name": "ann", "display_name": "Ann", "disabled": True, "created_at": T0}
TOKEN = {"id": "cr_1", "name": "ci", "user": "ann", "created_at": T0, "expires_at": None}


def page(*items: Any) -> dict[str, Any]:
    """A list as the API gives it."""
    return {"items": list(items), "next_cursor": None}


def log(data: bytes, offset: int = 0) -> dict[str, Any]:
    """A chunk of a log."""
    shown = base64.b64encode(data).decode()
    return {"member": "mb_1", "offset": offset, "next_offset": offset + len(data), "end": False,
            "data_base64": shown}  # fmt: skip


@dataclass
class Fake:
    """Answers by `METHOD path`; the last answer of a list stays. Keeps what it was asked."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    seen: list[httpx.Request] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)

    def on(self, route: str, *answers: Any) -> Fake:
        """Sets the answers of a route."""
        self.answers[route] = list(answers)
        return self

    def problem(self, route: str, status: int, code: str, **more: Any) -> Fake:
        """Sets an error."""
        body = {"status": status, "code": code, "params": {}, "detail": f"detail of {code}", **more}
        return self.on(route, httpx.Response(status, json=body))

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        queue = self.answers.get(f"{request.method} {request.url.path}")
        if queue is None:
            return httpx.Response(404, json={"code": "route-unknown", "params": {}})
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def body(self, index: int = -1) -> Any:
        """What was sent."""
        return json.loads(self.seen[index].content)

    def connect(self, session: Session) -> Client:
        """The client of a session that speaks to this server."""
        return Client(
            session.url or "http://steelyard.test",
            lang=session.lang,
            transport=httpx.MockTransport(self),
            sleep=lambda seconds: None,
            tries=1,
        )

    def run(self, *arguments: str, lang: str = "en", **environ: str) -> int:
        """Runs a command; its exit status."""
        return main(arguments, {"STEELYARD_LANG": lang, "HOME": "/nonexistent", **environ}, self.connect)


def installed() -> Fake:
    """A server that has one of everything."""
    fake = Fake()
    for route, answer in {
        "GET /v1/workloads": page(ROW, OLD),
        "GET /v1/workloads/wl_1": WAITING,
        "GET /v1/workloads/wl_2": FAILED,
        "POST /v1/workloads": WAITING,
        "GET /v1/workloads/wl_1/explanation": {
            "decision": "waits", "reasons": [REASON], "position": 3, "remedies": REMEDIES,
            "scaled": {"members": 2, "asked": 4, "joins": True},
            "reservation": {"starts_at": T0 + 60_000_000, "ends_at": None},
            "ahead": [{"id": "wl_9", "name": "big", "priority": 900, "by": FACTOR},
                      {"id": None, "name": None, "priority": 800, "by": {**FACTOR, "a": None}}],
            "last_evaluated_at": T0, "wakes_on": ["workload-released"], "approximate": False,
            "policy_version": 1, "verdict": None, "evictions": [],
            "past": [{"reason": "fragmented", "scope": "flavor", "owner": "a100", "resource": "gpu",
                      "flavor": "a100", "role": "main", "since": T0, "until": T0 + 60_000_000, "looks": 8,
                      "changes": 2}],
        },
        "GET /v1/workloads/wl_1/ahead/wl_2": {
            "workloads": [{"id": "wl_1", "name": "train-1", "project": "alpha", "queue": "main"},
                          {"id": "wl_2", "name": "old", "project": "alpha", "queue": "main"}],
            "first": "wl_2", "policy_version": 1,
            "factors": [{**FACTOR, "code": "factor.guaranteed", "name": "guaranteed", "a": 0, "b": 0,
                         "first": 0},
                        {**FACTOR, "a": 100, "b": 900, "first": 1}],
        },
        "GET /v1/inventory": page(NODE),
        "GET /v1/inventory/summary": SUMMARY,
        "GET /v1/devices/dv_1": DEVICE,
        "GET /v1/queues": [QUEUE],
        "GET /v1/queues/main/waiting": {
            "queue": "main", "at": 1, "policy_version": 3, "order": "Priority", "count": 3,
            "waiting": [
                {"id": "wl_1", "name": "train-1", "project": "alpha", "user": "ann", "priority": 100,
                 "priority_class": "normal", "band": 100, "ageing": 0, "submitted_at": 1,
                 "requested": {"gpu": 2000}, "before_next": None},
                {"id": None, "name": None, "project": None, "user": None, "priority": 10,
                 "priority_class": None, "band": 10, "ageing": 0, "submitted_at": None, "requested": None,
                 "before_next": None},
            ],
        },
        "GET /v1/quota-inventory": [
            {"subject": "gpu", "class": "gpu", "owned": 10_000, "there": 8000, "offered": 7000, "ghost": 3000,
             "unowned": 0},
        ],
        "GET /v1/quotas": [{**QUEUE, "kind": "project", "node": "project/alpha", "name": "alpha"}],
        "POST /v1/objects:apply": {"results": [RESULT]},
        "GET /v1/objects:export": {"documents": [DOCUMENT]},
        "GET /v1/objects": page(DOCUMENT),
        "GET /v1/objects/Team/red": DOCUMENT,
        "GET /v1/objects/Team/red/history": page(DOCUMENT),
        "DELETE /v1/objects/Team/red": {**RESULT, "action": "retired"},
        "GET /v1/failures": FAILURES,
        "GET /v1/usage": USAGE,
        "GET /v1/refusals": page(REFUSAL),
        "GET /v1/refusals/rf_1": REFUSAL,
        "GET /v1/cycles": page(CYCLE),
        "GET /v1/cycles/cy_1": {**CYCLE, "decisions": {}},
        "POST /v1/cycles/cy_1/replay": {"same": True, "differences": []},
        "POST /v1/audit/checks": CHECKS,
        "GET /v1/audit/checkpoint": CHECKPOINT,
        "GET /v1/audit/leaves": LEAVES,
        "GET /v1/me": {"name": "ann", "bindings": [{"role": "member", "project": "alpha"},
                                                   {"role": "auditor", "project": None}]},
        "DELETE /v1/sessions/current": httpx.Response(204),
        "GET /v1/users": page(USER),
        "POST /v1/users": {**USER, "password": "one-time"},
        "POST /v1/users/ann/disable": USER,
        "GET /v1/tokens": page(TOKEN),
        "POST /v1/tokens": {**TOKEN, "token": "sy_once"},
        "DELETE /v1/tokens/cr_1": httpx.Response(204),
        "GET /v1/workloads/wl_2/artifacts": {"items": [
            {"attempt": "at_2", "number": 1, "member": "mb_2", "role": "main", "index": 0, "cluster": "sim",
             "listed_at": T0, "complete": True,
             "files": [{"path": "artifacts/model", "bytes": 6, "sha256": "abc", "there": False}]}]},
        "GET /v1/releases": page(UNPROVEN),
        "GET /v1/releases/rl_1": PROVEN,
        "POST /v1/releases/rl_1/confirm": UNPROVEN,
        "POST /v1/releases/rl_1/fence": UNPROVEN,
        "GET /v1/usage/review": REVIEW,
        **fake_pools.ANSWERS,
        **fake_devices.ANSWERS,
        **fake_foresight.ANSWERS,
        "GET /v1/doctor": DOCTOR,
        "GET /v1/version": {"version": "0.1.0", "install_id": "in_1", "languages": ["en", "zh"]},
    }.items():  # fmt: skip
        fake.on(route, answer)
    for verb in ("cancel", "retry", "hold", "release", "scale"):
        fake.on(f"POST /v1/workloads/wl_1/{verb}", WAITING)
    fake.on("GET /v1/workloads/wl_1/logs", log(b"step 1\n"), log(b"", 7))
    return fake
