"""Live: what happens in a session, told as it happens to every surface that is attached to it."""
