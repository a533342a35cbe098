"""Releases that were not proven, as objects of their own; what a receipt counted."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Quarantines that are open already get their row from the control loop, with its leaf."""
    op.create_table(
        "unproven_release",
        sa.Column("attempt_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("workload_id", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("clusters_json", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("quarantined_at", sa.BigInteger(), nullable=False),
        sa.Column("reasons_json", sa.Text(), nullable=False),
        sa.Column("seen_json", sa.Text(), nullable=False),
        sa.Column("asked", sa.String(), nullable=True),
        sa.Column("asked_by", sa.String(), nullable=True),
        sa.Column("asked_reason", sa.Text(), nullable=True),
        sa.Column("asked_at", sa.BigInteger(), nullable=True),
        sa.Column("answer_json", sa.Text(), nullable=True),
        sa.Column("fenced_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_by", sa.String(), nullable=True),
        sa.Column("receipt_json", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("head_n", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("head_seq", sa.BigInteger(), server_default=sa.text("(-1)"), nullable=False),
        sa.Column("head_hash", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
    op.create_index(
        "unproven_release_open",
        "unproven_release",
        ["quarantined_at"],
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.add_column("receipt", sa.Column("probed_at", sa.BigInteger(), nullable=True))
    op.add_column("receipt", sa.Column("counts_json", sa.Text(), nullable=True))
    op.add_column("receipt", sa.Column("reasons_json", sa.Text(), nullable=True))
