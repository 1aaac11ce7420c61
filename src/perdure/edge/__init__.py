"""The ways in. Each translates, calls one service, translates back."""
