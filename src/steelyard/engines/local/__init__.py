"""The engine of this machine: real processes under a runner that outlives the server."""
