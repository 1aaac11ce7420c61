"""Read models: what a list shows and what a search finds, computed from states and payloads. All of it is pure."""
