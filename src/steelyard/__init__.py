"""Steelyard: one rule set for heterogeneous compute, with evidence of who used what."""

__version__ = "0.1.0"
