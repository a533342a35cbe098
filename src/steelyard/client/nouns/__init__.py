"""The client's methods by noun: each sends what `client.calls` describes."""
