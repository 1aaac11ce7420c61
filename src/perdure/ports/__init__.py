"""Protocols: what the services need from the world, and the plain data that crosses each border."""
