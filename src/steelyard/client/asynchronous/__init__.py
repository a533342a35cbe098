"""The same methods for programs that await: each sends what `client.calls` describes."""
