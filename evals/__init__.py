"""Measures of quality on data that stays outside of the repository."""
