"""When an attempt that waits was first expected to start, to be compared with when it did."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """What waits already gets its estimate when it is next looked at."""
    op.create_table(
        "start_estimate",
        sa.Column("attempt_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("earliest", sa.BigInteger(), nullable=True),
        sa.Column("latest", sa.BigInteger(), nullable=True),
        sa.Column("why", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("attempt_id"),
    )
    op.create_index("start_estimate_made", "start_estimate", ["made_at"])
