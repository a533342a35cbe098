"""Observers of a trial's own: what vendor tools, the kernel and simulated clusters show."""
