"""Measured use of attempts that have an idle limit: one row each."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Nothing was measured before."""
    op.create_table(
        "attempt_use",
        sa.Column("attempt_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sampled_at", sa.BigInteger(), nullable=True),
        sa.Column("idle_for", sa.BigInteger(), nullable=False),
        sa.Column("known", sa.BigInteger(), nullable=False),
        sa.Column("cpu", sa.BigInteger(), nullable=True),
        sa.Column("device", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
