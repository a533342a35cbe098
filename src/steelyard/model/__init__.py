"""The nouns: what exists. Frozen values and enums, without I/O and without a clock."""
