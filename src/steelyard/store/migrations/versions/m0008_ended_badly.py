"""What ended badly of late is found by its end, without a look at all that went well."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_BADLY = "outcome IN ('failed', 'timed-out', 'lost')"


def upgrade() -> None:
    """An index on the few rows that it is about."""
    op.create_index(
        "workload_ended_badly",
        "workload",
        ["finished_at"],
        sqlite_where=sa.text(_BADLY),
        postgresql_where=sa.text(_BADLY),
    )
