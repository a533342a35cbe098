"""The command line: one module for each noun, speaking through the client."""
