"""Reasons that are found again and again are one row, with how often they were found."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """What stands was found once at least."""
    op.add_column("shape_reason", sa.Column("looks", sa.BigInteger(), nullable=False, server_default="1"))
