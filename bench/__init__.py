"""Benchmarks of perdure against SQLite itself and against its peers: `python -m bench --help`."""
