"""What users of queueing systems met, as tests: `test_sNN_*.py` is that of S-NN in docs/scenarios.csv."""
