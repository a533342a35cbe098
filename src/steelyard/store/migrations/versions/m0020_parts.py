"""A member of an elastic gang may leave alone: it is started, stopped and released by itself."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Members so far run with their attempt, and every eviction stopped all of its victim."""
    op.add_column("member", sa.Column("apart", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.add_column("member", sa.Column("leaving_at", sa.BigInteger()))
    op.add_column("member", sa.Column("released_at", sa.BigInteger()))
    op.add_column("eviction", sa.Column("shrunk_id", sa.BigInteger()))
    op.add_column("eviction", sa.Column("members_json", sa.Text()))
    op.add_column("eviction", sa.Column("stay", sa.BigInteger()))
