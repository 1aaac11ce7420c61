"""The session: its events, its chain, its state and the rules by which one becomes the next."""
