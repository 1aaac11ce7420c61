"""Conversations brought over from the stores of agent frameworks: one module for each kind of source."""
