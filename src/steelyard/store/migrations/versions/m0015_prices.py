"""What room on devices can still earn, by which nodes are chosen where the policy says so."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Nothing is known of the mix before; the first list is made when the policy asks for one."""
    op.create_table(
        "price_list",
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("at"),
    )
