"""Requests on pools, labels, admissions of resource types, verification records and the register."""

from __future__ import annotations

from typing import Any

from steelyard.client.call import Call, Pages, get, part, post
from steelyard.client.views import Json


def pools() -> Pages[Json]:
    """Every pool."""
    return Pages("/v1/pools")


def pool(name: str) -> Call[Json]:
    """One pool."""
    return get(f"/v1/pools/{part(name)}")


def set_pool(name: str, act: str, reason: str) -> Call[Json]:
    """Closes or opens a pool."""
    return post(f"/v1/pools/{part(name)}/{act}", {"reason": reason}, repeatable=False)


def labels() -> Call[Json]:
    """The vocabulary."""
    return get("/v1/labels")


def label_lint() -> Call[Json]:
    """Findings and figures."""
    return get("/v1/labels/lint")


def label_history(key: str | None) -> Call[Json]:
    """When labels changed."""
    return get("/v1/labels/history", {"key": key})


def admissions() -> Pages[Json]:
    """Admissions."""
    return Pages("/v1/admissions")


def admission(admission_id: str) -> Call[Json]:
    """One admission."""
    return get(f"/v1/admissions/{part(admission_id)}")


def start_admission(device_class: str, family: str, model: str, reason: str) -> Call[Json]:
    """Begins one."""
    body = {"class": device_class, "family": family, "model": model, "reason": reason}
    return post("/v1/admissions", body, repeatable=False)


def take_step(admission_id: str, step: str, detail: dict[str, Any]) -> Call[Json]:
    """Takes a step."""
    return post(f"/v1/admissions/{part(admission_id)}/steps/{part(step)}", detail, repeatable=False)


def finish_admission(admission_id: str) -> Call[Json]:
    """Admits the type."""
    return post(f"/v1/admissions/{part(admission_id)}/finish")


def verifications(standing: bool) -> Pages[Json]:
    """Records."""
    return Pages("/v1/verifications", {"standing": standing})


def verification(verification_id: str) -> Call[Json]:
    """One record."""
    return get(f"/v1/verifications/{part(verification_id)}")


def end_verification(verification_id: str, reason: str) -> Call[Json]:
    """Ends a record."""
    return post(f"/v1/verifications/{part(verification_id)}/end", {"reason": reason}, repeatable=False)


def register() -> Pages[Json]:
    """Entries with their answers."""
    return Pages("/v1/register")


def register_entry(name: str) -> Call[Json]:
    """One entry."""
    return get(f"/v1/register/{part(name)}")
