"""Numbered migrations: each file is run once, in order, in one transaction with the new number in `perdure.setting`."""
