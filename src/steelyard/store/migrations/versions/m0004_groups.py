"""Workloads that belong together: replicas of a service, tasks of an array."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Workloads of before belong to no group."""
    op.create_table(
        "workload_group",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("wanted", sa.BigInteger(), nullable=False),
        sa.Column("guaranteed", sa.BigInteger(), nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("lend", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("next_index", sa.BigInteger(), nullable=False),
        sa.Column("stopped_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("workload", sa.Column("group_id", sa.BigInteger(), nullable=True))
    op.add_column("workload", sa.Column("group_index", sa.BigInteger(), nullable=True))
    for name in ("guaranteed", "standby"):
        op.add_column(
            "workload", sa.Column(name, sa.Boolean(), server_default=sa.text("(false)"), nullable=False)
        )
    op.add_column("workload", sa.Column("activated_at", sa.BigInteger(), nullable=True))
    op.create_index(
        "workload_group_members",
        "workload",
        ["group_id"],
        sqlite_where=sa.text("group_id IS NOT NULL"),
        postgresql_where=sa.text("group_id IS NOT NULL"),
    )
