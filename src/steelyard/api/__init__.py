"""The REST door: routes for each noun and problem records for what went wrong."""
