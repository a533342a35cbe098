"""Verdicts point at counters and lines, and carry the signature by which failures are grouped; an attempt
knows the nodes on which those before it failed."""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_FIELDS = {"exit": "exit_code", "signal": "exit_signal", "said": "failure_text"}
_QUEUE = ("over-limit", "exceeds-max-quota")
_CHUNK = 500


def upgrade() -> None:
    """New columns; verdicts of before are written anew in the form of now."""
    op.add_column("attempt", sa.Column("failure_signature", sa.String(), nullable=True))
    op.add_column("attempt", sa.Column("failure_stage", sa.String(), nullable=True))
    op.add_column("attempt", sa.Column("failure_group", sa.String(), nullable=True))
    op.add_column("attempt", sa.Column("avoid_json", sa.Text(), nullable=True))
    op.add_column("refusal", sa.Column("failure_signature", sa.String(), nullable=True))
    op.add_column("refusal", sa.Column("failure_stage", sa.String(), nullable=True))
    _rewrite_verdicts()
    _sign_refusals()
    op.create_index(
        "attempt_failure",
        "attempt",
        ["failure_signature"],
        sqlite_where=sa.text("failure_signature IS NOT NULL"),
        postgresql_where=sa.text("failure_signature IS NOT NULL"),
    )
    op.create_index("refusal_failure", "refusal", ["failure_signature"])


def _rewrite_verdicts() -> None:
    attempt = sa.table(
        "attempt", *(sa.column(name) for name in (
            "id", "verdict_json", "failure_signature", "failure_stage", "failure_group",
        ))
    )  # fmt: skip
    connection, last = op.get_bind(), 0
    query = sa.select(attempt.c.id, attempt.c.verdict_json).where(attempt.c.verdict_json.is_not(None))
    query = query.order_by(attempt.c.id).limit(_CHUNK)
    while rows := connection.execute(query.where(attempt.c.id > last)).all():
        for row in rows:
            last, verdict = row.id, _verdict(json.loads(row.verdict_json))
            connection.execute(
                attempt.update().where(attempt.c.id == row.id).values(
                    verdict_json=json.dumps(verdict, ensure_ascii=False, sort_keys=True),
                    failure_signature=verdict["signature"],
                    failure_stage=verdict["stage"],
                    failure_group=verdict["group"],
                )
            )  # fmt: skip


def _verdict(old: dict[str, Any]) -> dict[str, Any]:
    pointers = [_pointer(text) for text in old["evidence"]]
    params: dict[str, Any] = {}
    number: Any = ""
    for pointer in pointers:
        if pointer["field"] == "exit_code":
            params["exit"] = number = pointer["value"]
        elif pointer["field"] == "exit_signal":
            params["signal"] = number = pointer["value"]
    parts = (old["stage"], old["code"], "", str(number))
    return {
        **old,
        "evidence": pointers,
        "retry": "retry" if old["action"] == "retry" else "do-not-retry",
        "rule": "",
        "catalogue": "0",
        "signature": hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16],
        "detail": None,
        "params": params,
        "others": [],
    }


def _pointer(text: str) -> dict[str, Any]:
    """`mb_…:exit=7`, `stage=launch`, `time-limit`, `mb_…:log`."""
    member, colon, rest = text.partition(":")
    if not colon or not member.startswith("mb_"):
        member, rest = "", text
    name, _, value = rest.partition("=")
    known: Any = int(value) if name == "exit" and value.lstrip("-").isdigit() else value or None
    return {
        "kind": "counter", "field": _FIELDS.get(name, name), "value": known, "member": member or None,
        "offset": None, "length": None, "digest": None,
    }  # fmt: skip


def _sign_refusals() -> None:
    refusal = sa.table(
        "refusal", *(sa.column(name) for name in ("id", "reasons_json", "failure_signature", "failure_stage"))
    )
    connection, last = op.get_bind(), 0
    query = sa.select(refusal.c.id, refusal.c.reasons_json).order_by(refusal.c.id).limit(_CHUNK)
    while rows := connection.execute(query.where(refusal.c.id > last)).all():
        for row in rows:
            last, reasons = row.id, json.loads(row.reasons_json)
            if not reasons:
                continue
            code = reasons[0]["code"]
            stage = "queue" if code in _QUEUE else "request"
            parts = (stage, code, "", "")
            connection.execute(
                refusal.update().where(refusal.c.id == row.id).values(
                    failure_signature=hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16],
                    failure_stage=stage,
                )
            )  # fmt: skip
