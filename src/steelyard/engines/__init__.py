"""Where workloads run: one port, one folder for each engine behind it."""
