"""The Python SDK: what a program outside sees of a server."""
