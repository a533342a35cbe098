"""The acceptance story behind `make demo`, told through the client alone."""
