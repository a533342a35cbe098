"""Alembic's entry: runs on the connection that `store.migrate` hands over."""

from alembic import context

from steelyard.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
