"""perdure."""
