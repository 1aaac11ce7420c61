"""Sealing: encryption at rest under a key for every session, the vault of their salts, and master keys."""
