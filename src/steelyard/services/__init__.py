"""Use cases, one module for each noun: check, decide, record, commit."""
