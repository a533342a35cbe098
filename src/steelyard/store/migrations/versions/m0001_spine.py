"""The spine: every table of the first version."""

from alembic import op

from steelyard.store.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    metadata.create_all(op.get_bind())
