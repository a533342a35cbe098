"""Answers made of recorded rows: usage reports, review questions, exports."""
