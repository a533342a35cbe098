"""Health, flags and history of nodes and devices; nothing unavailable without a reason."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_REASON = "(availability = 'available') = (reason IS NULL)"
_OPEN = "valid_to IS NULL"


def upgrade() -> None:
    """What nodes were before is told from now on; of devices the closed capacity segments tell it."""
    _reasons()
    _node_state()
    _device_condition()
    _flag()
    op.create_table(
        "registration",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        *_columns("at:int cluster:str node:str uid:str device_id:int? outcome:str reason:str? source:str "
                  "set_by:str"),
        sa.PrimaryKeyConstraint("id"),
    )  # fmt: skip
    op.create_index("registration_place", "registration", ["cluster", "node"])
    op.create_index("device_fact_from", "device_fact", ["valid_from"])
    op.create_index(
        "device_fact_to", "device_fact", ["valid_to"],
        sqlite_where=sa.text("valid_to IS NOT NULL"), postgresql_where=sa.text("valid_to IS NOT NULL"),
    )  # fmt: skip
    op.create_index("allocation_device", "allocation", ["device_id", "t0"])


_TYPES = {"int": sa.BigInteger, "str": sa.String, "text": sa.Text}


def _columns(text: str) -> list[sa.Column[object]]:
    """`name:type`, with `?` where it may be null."""
    found: list[sa.Column[object]] = []
    for part in text.split():
        name, _, kind = part.partition(":")
        found.append(sa.Column(name, _TYPES[kind.rstrip("?")](), nullable=kind.endswith("?")))
    return found


def _interval() -> list[sa.Column[object]]:
    return _columns("valid_from:int valid_to:int? version:int")


def _reasons() -> None:
    device = sa.table("device", *(sa.column(name) for name in ("availability", "reason")))
    op.execute(
        device.update()
        .where(device.c.availability != "available", device.c.reason.is_(None))
        .values(reason="health-unknown")
    )
    op.execute(device.update().where(device.c.availability == "available").values(reason=None))
    op.drop_index("device_uid", "device")
    if op.get_bind().dialect.name == "sqlite":
        with op.batch_alter_table("device") as batch:
            batch.create_check_constraint("device_reason", _REASON)
    else:
        op.create_check_constraint("device_reason", "device", _REASON)
    op.create_index(
        "device_uid", "device", ["cluster", "uid"], unique=True,
        sqlite_where=sa.text("retired_at IS NULL"), postgresql_where=sa.text("retired_at IS NULL"),
    )  # fmt: skip


def _node_state() -> None:
    op.create_table(
        "node_state",
        *_columns("node_id:int availability:str reason:str? reason_text:text? labels_json:text set_by:str"),
        *_interval(),
        sa.PrimaryKeyConstraint("node_id", "version"),
    )
    op.create_index("node_state_from", "node_state", ["valid_from"])
    op.execute(
        "INSERT INTO node_state (node_id, availability, reason, reason_text, labels_json, set_by, "
        "valid_from, valid_to, version) "
        "SELECT n.id, n.availability, n.reason, n.reason_text, n.labels_json, n.cluster, "
        "COALESCE((SELECT MIN(d.registered_at) FROM device d WHERE d.node_id = n.id), 0), NULL, 1 FROM node n"
    )


def _device_condition() -> None:
    op.create_table(
        "device_condition",
        *_columns("device_id:int health:str signs_json:text holders_json:text occupied:int"),
        *_columns("reason_text:text?"),
        *_interval(),
        sa.PrimaryKeyConstraint("device_id", "version"),
    )
    op.create_index(
        "device_condition_open", "device_condition", ["device_id"],
        sqlite_where=sa.text(_OPEN), postgresql_where=sa.text(_OPEN),
    )  # fmt: skip
    op.create_index("device_condition_from", "device_condition", ["valid_from"])
    op.create_index("device_condition_to", "device_condition", ["valid_to"])


def _flag() -> None:
    op.create_table(
        "flag",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        *_columns("kind:str object_id:int cluster:str flag:str drain:str?"),
        *_interval(),
        *_columns("set_by:str reason:text lifted_by:str? lift_reason:text? attempt_id:int?"),
        sa.Column("head_n", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("head_seq", sa.BigInteger(), server_default=sa.text("(-1)"), nullable=False),
        sa.Column("head_hash", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "flag_open", "flag", ["object_id", "flag"], unique=True,
        sqlite_where=sa.text(_OPEN), postgresql_where=sa.text(_OPEN),
    )  # fmt: skip
    op.create_index("flag_of", "flag", ["object_id"])
    op.create_index("flag_from", "flag", ["valid_from"])
