"""What waits is counted and listed in its order from an index; a page of what is live is found by id."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_LIVE, _WAITING, _OPEN = "phase <> 'finished'", "phase = 'queued'", "t1 IS NULL"


def upgrade() -> None:
    """Two indices over the rows of live workloads alone; and what is open stays found by its own index."""
    op.drop_index("workload_live", "workload")
    op.create_index(
        "workload_live",
        "workload",
        ["phase", "id"],
        sqlite_where=sa.text(_LIVE),
        postgresql_where=sa.text(_LIVE),
    )
    op.create_index(
        "workload_waiting",
        "workload",
        ["queue", sa.text("priority DESC"), "submitted_at", "id", "project", "namespace"],
        sqlite_where=sa.text(_WAITING),
        postgresql_where=sa.text(_WAITING),
    )
    # Of two indices that fit a query as well SQLite takes the one made last: since 0009 that was the other.
    op.drop_index("allocation_open", "allocation")
    op.create_index(
        "allocation_open",
        "allocation",
        ["device_id"],
        sqlite_where=sa.text(_OPEN),
        postgresql_where=sa.text(_OPEN),
    )
