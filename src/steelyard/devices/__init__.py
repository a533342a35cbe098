"""Finding accelerators: the catalogue as data, one pure parser for each vendor tool, the probe."""
