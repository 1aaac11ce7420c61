"""Who may do what, how often, and what looks unlike them: pure decisions about requests."""
