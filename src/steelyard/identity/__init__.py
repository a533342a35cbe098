"""Who asks and what they may do: passwords, tokens, sessions, authorise and scope."""
