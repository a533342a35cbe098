"""How long work of a template or a kind took before: a bound for work without a time limit."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Nothing is known before; the first row is written when enough has run."""
    op.create_table(
        "run_times",
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("at"),
    )
