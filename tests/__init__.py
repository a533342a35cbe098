"""The tests: unit (no I/O), contract (one suite, every engine and database), service, shapes, e2e."""
