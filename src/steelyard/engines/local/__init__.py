"""The local engine: real processes of this machine, kept by a runner that outlives the server."""
