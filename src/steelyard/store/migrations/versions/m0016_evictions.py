"""Evictions say for whose work they were, what was asked for, by which shares, and what was saved before."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_NUMBERS = ("cycle_id", "priority", "preemptor_attempt_id", "preemptor_priority", "saved_at")
_TEXTS = ("requested_json", "shares_json")
_NAMES = ("queue", "preemptor_queue")


def upgrade() -> None:
    """Of earlier evictions none of it is known."""
    for name in _NUMBERS:
        op.add_column("eviction", sa.Column(name, sa.BigInteger()))
    for name in _NAMES:
        op.add_column("eviction", sa.Column(name, sa.String()))
    for name in _TEXTS:
        op.add_column("eviction", sa.Column(name, sa.Text()))
    op.create_index("eviction_at", "eviction", ["at"])
    op.create_index("eviction_preemptor", "eviction", ["preemptor_id"])
