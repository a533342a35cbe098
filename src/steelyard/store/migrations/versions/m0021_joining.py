"""Members may join a gang while it runs; one that could not start ends that for its attempt."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """All members so far started with their attempt."""
    op.add_column("member", sa.Column("joined_at", sa.BigInteger()))
    op.add_column("attempt", sa.Column("joins_off", sa.BigInteger()))
