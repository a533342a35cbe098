"""What can be asked of a server: one function a request, by noun."""
