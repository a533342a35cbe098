"""Trials of a candidate: scenarios as data, an adapter for it, observers of its own, verdicts by rule."""
