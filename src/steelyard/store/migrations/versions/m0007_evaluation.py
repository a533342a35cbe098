"""Evaluations: the result of one, and the workload whose model it was."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Evaluations of before have no record."""
    op.create_table(
        "evaluation",
        sa.Column("workload_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt_id", sa.BigInteger(), nullable=False),
        sa.Column("model_workload", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("result_json", sa.Text(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workload_id"),
    )
    op.create_index("evaluation_model", "evaluation", ["model_workload"])
