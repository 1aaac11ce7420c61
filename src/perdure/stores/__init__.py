"""Engines behind the store port: `volatile` in RAM, `sqlite` in one file."""
