"""Pools, labels, admissions, verifications and the register as the API gives them."""

from __future__ import annotations

from typing import Any

SECOND = 1_000_000
T0 = 1_767_225_600 * SECOND  # 2026-01-01 00:00:00 UTC

CLOSED = {
    "id": "pc_1", "cause": "operator", "findings": [], "closed_at": T0, "closed_by": "ann",
    "reason": "new racks", "opened_at": None, "opened_by": None, "open_reason": None,
}  # fmt: skip
DRIFT = {
    **CLOSED, "id": "pc_2", "cause": "drift", "reason": None, "closed_by": "control",
    "findings": [{"what": "driver", "where": "n-0/gpu-0", "declared": "driver 550",
                  "detected": "driver 535"}] * 2,
}  # fmt: skip
OUTLINE: dict[str, Any] = {
    "name": "accel", "cluster": "sim", "purpose": "training", "owner": "platform", "on_call": "duty",
    "open": False, "shut_by": [CLOSED, DRIFT], "standing": "pending-verification", "simulated": True,
    "flavors": [{"name": "a100", "class": "gpu", "family": "nvidia", "model": None, "models": ["A100"],
                 "devices": 8, "available": 7, "verified_kinds": ["training"],
                 "standing": "pending-verification", "supported": False}],
}  # fmt: skip
POOL: dict[str, Any] = {
    **OUTLINE, "about": "cards", "selector": {"zone": "a"}, "environment": {"framework": ["pytorch", "jax"]},
    "confirmations": [{"label": "framework", "value": "jax", "confirmed_by": ["run", "support-document"],
                       "documents": ["matrix"], "standing": "verified"},
                      {"label": "framework", "value": "pytorch", "confirmed_by": [], "documents": [],
                       "standing": "pending-verification"}],
    "fit": [{"class": "npu", "needs": {"framework": ["mindspore", "torch-npu"]}}],
    "admission": {"kinds": ["training"], "projects": ["alpha"], "teams": [], "environments": [],
                  "max_per_request": {"gpu": 4000}},
    "lending": {"to": ["other"], "verified": [{"kind": "training", "model": "A100"}]},
    "operations": [{"class": "gpu", "owner": "platform", "on_call": "duty"}],
    "members": {"declared": ["n-0", "n-1"], "actual": ["n-0", "n-2"], "equal": False, "missing": ["n-1"],
                "extra": ["n-2"]},
    "closings": [CLOSED, DRIFT],
}  # fmt: skip
LABEL = {
    "key": "zone", "values": ["a", "b"], "meaning": {"en": "a part of the site", "zh": "园区分区"},
    "set_by": ["platform", "engine"], "placement": True, "low_level": True, "inherited": True, "nodes": 2,
}  # fmt: skip
LABELS = {
    "version": 3, "declared": True, "metadata_closed": True, "keys": [LABEL],
    "foreign": [{"key": "gpu.example/x", "count": 4}],
}  # fmt: skip
LINT = {
    "version": 3, "keys": 1, "too_few": [{"key": "rdma", "refused": 2, "templates": 1}],
    "too_many": {"requests": {"looked_at": 5, "with_low_level": 1, "keys": [{"key": "zone", "count": 1}]},
                 "from_templates": {"looked_at": 9, "named": 0, "keys": []}, "demanded_by_pools": ["zone"]},
    "unused": ["rack"], "foreign": LABELS["foreign"],
    "figures": {"too_few": 1, "too_many_requests": 1, "too_many_templates": 0, "unused": 1,
                "foreign_keys": 1, "foreign_nodes": 4},
}  # fmt: skip
HISTORY = {
    "vocabulary": [{"key": "zone", "change": "added", "entry": {}, "at": T0, "until": None, "version": 1,
                    "by": "ann", "reason": "two rooms"}],
    "nodes": [{"key": "zone", "value": "a", "cluster": "sim", "node": "n-0", "from": T0, "until": None,
               "set_by": "sim"}],
}  # fmt: skip
ADMISSION: dict[str, Any] = {
    "id": "ad_1", "class": "npu", "family": "ascend", "model": "910B", "state": "open",
    "standing": "pending-verification", "reason": "new cards", "started_at": T0, "started_by": "ann",
    "finished_at": None, "finished_by": None, "version": 2,
    "steps": [{"step": "labels", "done": True, "at": T0, "by": "ann", "detail": {"labels": ["framework"]}},
              {"step": "verification", "done": False, "at": None, "by": None, "detail": None}],
}  # fmt: skip
RECORD = {
    "id": "vr_1", "standing": "verified", "kind": "training", "class": "npu", "family": "ascend",
    "model": "910B", "pool": "npus", "flavor": "n910b", "environment": {"cann": "8.0"},
    "software": {"roles": {"main": {"runtime": "host", "image": None, "venv": None}}, "template": None,
                 "result": "succeeded"},
    "workload": "wl_1", "attempt": "at_1", "leaf": 77, "admission": "ad_1", "issued_at": T0,
    "issued_by": "ann", "expires_at": T0 + SECOND, "ended_at": T0, "ended_by": "ann",
    "end_reason": "replaced", "version": 2,
}  # fmt: skip
REASON = {
    "code": "register-unverified", "stage": "register", "scope": None, "owner": None, "resource": None,
    "flavor": None, "limit": None, "used": None, "requested": None, "short_by": None, "holders": [],
    "wakes_on": [], "approximate": False,
    "params": {"pool": "npus", "kind": "training", "models": "910B"},
}  # fmt: skip
ENTRY = {
    "name": "llm", "version": 2, "kind": "training", "requests": {"npu": 8}, "needs": {"cann": "8.0"},
    "period": "next quarter", "boundaries": "no fp8", "answer": "pending", "reasons": [REASON],
    "pools": [{"pool": "npus", "standing": "pending-verification", "answer": "pending", "models": ["910B"],
               "reasons": [REASON]}],
}  # fmt: skip


def items(*rows: Any) -> dict[str, Any]:
    """A list as the API gives it."""
    return {"items": list(rows), "next_cursor": None}


ANSWERS: dict[str, Any] = {
    "GET /v1/pools": items(OUTLINE),
    "GET /v1/pools/accel": POOL,
    "POST /v1/pools/accel/close": POOL,
    "POST /v1/pools/accel/open": POOL,
    "GET /v1/labels": LABELS,
    "GET /v1/labels/lint": LINT,
    "GET /v1/labels/history": HISTORY,
    "GET /v1/admissions": items(ADMISSION),
    "POST /v1/admissions": ADMISSION,
    "GET /v1/admissions/ad_1": ADMISSION,
    "POST /v1/admissions/ad_1/steps/owner": ADMISSION,
    "POST /v1/admissions/ad_1/finish": {**ADMISSION, "state": "admitted"},
    "GET /v1/verifications": items(RECORD),
    "GET /v1/verifications/vr_1": RECORD,
    "POST /v1/verifications/vr_1/end": RECORD,
    "GET /v1/register": items(ENTRY),
    "GET /v1/register/llm": ENTRY,
}
#: Command line → (a piece of the English page, a piece of the Chinese page).
PAGES: dict[str, tuple[str, str]] = {
    "pool list": ("accel [simulated]", "已关闭"),
    "pool show accel": ("driver of n-0/gpu-0 is declared as driver 550", "检测到 driver 535（另有 1 处）"),
    "pool close accel --reason x": ("lets nothing new in", "已暂停准入"),
    "pool open accel --reason x": ("accel is open", "已开放"),
    "label list": ("foreign: gpu.example/x on 4 node(s), shown and never matched", "园区分区"),
    "label lint": ("too few: no label can say rdma", "使用模板的申请中的底层标签：0"),
    "label history": ("two rooms", "新增"),
    "admission list": ("pending verification", "待验证"),
    "admission start npu ascend 910B --reason x": ("ascend 910B, open", "进行中"),
    "admission show ad_1": ("✓ labels", "✓ 标签"),
    "admission step ad_1 owner --owner x --on-call y": ("· verifying workload", "· 验证任务"),
    "admission finish ad_1": ("admitted", "已准入"),
    "verification list": ("cann=8.0", "训练"),
    "verification show vr_1": ("leaf 77 of the log", "日志叶 77"),
    "verification end vr_1 --reason x": ("ended by ann", "ann 于"),
    "document list": ("None of these proves support", "均不构成支持证明"),
    "document show red": ("None of these proves support", "均不构成支持证明"),
    "register list": ("No real run of kind training", "还没有训练类型的真实任务"),
    "register show llm": ("pool npus: pending", "资源池 npus：待验证"),
}
