"""The loops: schedule, reconcile, release, sample, seal."""
