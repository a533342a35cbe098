"""A limit says what becomes of work above it when it is lowered; what stops for that stops for nobody."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Limits so far say nothing, and everything that was evicted was for somebody."""
    op.add_column("quota_limit", sa.Column("on_lowered", sa.String()))
    op.add_column("quota_limit", sa.Column("drain_for", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("eviction", sa.Column("limit_json", sa.Text()))
    if op.get_bind().dialect.name == "sqlite":
        with op.batch_alter_table("eviction") as batch:
            batch.alter_column("preemptor_id", existing_type=sa.BigInteger(), nullable=True)
    else:
        op.alter_column("eviction", "preemptor_id", existing_type=sa.BigInteger(), nullable=True)
