"""Helpers of the tests: servers that they start for themselves, and what is known of requirements."""
