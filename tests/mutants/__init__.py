"""Mutants of the scheduling core: one-line faults, each with the test that they turn red."""
