"""Pools that close, types of resources that are admitted, runs that verify; the labels that were in use."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

INHERITED = "label-keys-inherited"


def upgrade() -> None:
    """Labels that pools and requests name already go on being known."""
    _closing()
    _admission()
    _verification()
    keys = sorted(_of_pools() | _of_requests())
    if keys:
        setting = sa.table("setting", sa.column("name"), sa.column("value"))
        op.get_bind().execute(setting.insert().values(name=INHERITED, value=json.dumps(keys)))


def _heads() -> list[Any]:
    return [
        sa.Column("head_n", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("head_seq", sa.BigInteger(), server_default=sa.text("-1"), nullable=False),
        sa.Column("head_hash", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    ]


def _columns(text: str) -> list[Any]:
    """`name:type` or `name:type?` for one that may be null."""
    kinds = {"int": sa.BigInteger, "str": sa.String, "text": sa.Text}
    found: list[Any] = [sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False)]
    for word in text.split():
        name, _, kind = word.partition(":")
        found.append(sa.Column(name, kinds[kind.rstrip("?")](), nullable=kind.endswith("?")))
    return found


def _closing() -> None:
    op.create_table(
        "pool_closing",
        *_columns("pool:str cause:str findings_json:text closed_at:int closed_by:str close_reason:text? "
                  "opened_at:int? opened_by:str? open_reason:text? version:int"),
        *_heads(),
    )  # fmt: skip
    op.create_index(
        "pool_closing_open", "pool_closing", ["pool", "cause"], unique=True,
        sqlite_where=sa.text("opened_at IS NULL"), postgresql_where=sa.text("opened_at IS NULL"),
    )  # fmt: skip
    op.create_index("pool_closing_of", "pool_closing", ["pool", "closed_at"])


def _admission() -> None:
    op.create_table(
        "resource_admission",
        *_columns("class:str family:str model:str state:str steps_json:text reason:text? started_at:int "
                  "started_by:str finished_at:int? finished_by:str? version:int"),
        *_heads(),
    )  # fmt: skip
    op.create_index("resource_admission_type", "resource_admission", ["family", "model"], unique=True)


def _verification() -> None:
    op.create_table(
        "verification",
        *_columns("kind:str class:str family:str model:str pool:str? flavor:str? environment_json:text "
                  "software_json:text admission_id:int? workload_id:int attempt_id:int leaf_seq:int "
                  "issued_at:int issued_by:str expires_at:int ended_at:int? ended_by:str? end_reason:text? "
                  "version:int"),
        *_heads(),
    )  # fmt: skip
    op.create_index("verification_model", "verification", ["family", "model", "kind"])


# --- labels in use ---------------------------------------------------------------------------------------
def _of_pools() -> set[str]:
    declared = sa.table("declared", *(sa.column(name) for name in ("kind", "valid_to", "spec_json")))
    query = sa.select(declared.c.spec_json).where(
        declared.c.kind.in_(["Pool", "Template"]), declared.c.valid_to.is_(None)
    )
    keys: set[str] = set()
    for (body,) in op.get_bind().execute(query):
        spec = json.loads(body)
        keys |= set(((spec.get("selector") or {}).get("labels") or {}).keys())
        inner = spec.get("spec")
        roles = inner.get("roles") if isinstance(inner, dict) else None
        for role in roles if isinstance(roles, list) else []:
            labels = role.get("nodeLabels") if isinstance(role, dict) else None
            keys |= set(labels) if isinstance(labels, dict) else set()
    return {key for key in keys if isinstance(key, str)}


def _of_requests() -> set[str]:
    shape = sa.table("shape", sa.column("body_json"))
    query = sa.select(shape.c.body_json).where(shape.c.body_json.like('%"node_labels":[[%'))
    keys: set[str] = set()
    for (body,) in op.get_bind().execute(query):
        for role in json.loads(body)["roles"]:
            keys |= {key for key, _ in role[2].get("node_labels", ())}
    return keys
