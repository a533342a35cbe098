"""Remembering: the only room that speaks SQL, on SQLite and PostgreSQL."""
