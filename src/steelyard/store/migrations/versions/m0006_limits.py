"""A member's row says what bounds it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Of members before it is not known."""
    op.add_column("member", sa.Column("limits", sa.String(), nullable=True))
