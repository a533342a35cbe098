"""Deciding: a snapshot, a policy and an instant in, decisions with their reasons out. Pure."""
