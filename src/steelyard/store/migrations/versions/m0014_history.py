"""What was used lately, for the order of what waits; what has waited too long is marked."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """History begins with the next instant of its grid."""
    op.create_table(
        "use_history",
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("at"),
    )
    op.create_index(
        "allocation_ended", "allocation", ["t1"],
        sqlite_where=sa.text("t1 IS NOT NULL"), postgresql_where=sa.text("t1 IS NOT NULL"),
    )  # fmt: skip
    op.add_column("workload", sa.Column("starving_bound", sa.BigInteger(), nullable=True))
