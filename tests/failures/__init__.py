"""Failures that are induced on purpose, each with the truth about it, and how well they are told apart."""
