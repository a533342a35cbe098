"""The simulated engine: clusters that exist as data and verify nothing about hardware."""
