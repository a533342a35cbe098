"""A weight is a queue's or cohort's, declared in its document, and none of each of its limits."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """It was the same in every row."""
    op.drop_column("quota_limit", "weight")
